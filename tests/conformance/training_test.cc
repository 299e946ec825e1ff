// Real networks, small: profiled, solved and trained under budgets, on a host device. What comes
// out is what plain training leaves, to the bit, and takes the memory that was predicted.
#include "tests/support/training.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "client/agent/executor.h"
#include "client/agent/host_device.h"
#include "client/torch/memory_meter.h"
#include "client/torch/profiler.h"
#include "client/train/networks.h"
#include "gmock/gmock.h"
#include "solver/algorithms/answer.h"
#include "solver/algorithms/catalog.h"
#include "solver/simulator/lower_bound.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"
#include "tests/support/transfers.h"

namespace stowage {
namespace {

Training SmallTraining(const char* name) {
  at::manual_seed(11);
  const NetworkOptions options{.batch = 4,
                               .image = 96,
                               .channels = 16,
                               .classes = 10,
                               .width = 64,
                               .sequence = 32,
                               .vocabulary = 100};
  auto network = MakeNetwork(name, options);
  return {network->stages, network->input, network->loss};
}

class TrainingTest : public testing::TestWithParam<const char*> {
 protected:
  static constexpr int kSteps = 2;

  TrainingTest() : planned_(SmallTraining(GetParam())) {
    Training plain = SmallTraining(GetParam());
    at::manual_seed(12);
    Train(&plain, [&plain] { PlainBackward(plain); });
    expected_ = StateOf(plain);
    stages_ = std::make_unique<TorchStages>(planned_.stages, TorchOptions{});
    stages_->Feed(planned_.input, planned_.loss);
    auto chain = ProfileChain(stages_.get(), &device_, &HostMemory(), {.repeats = 1});
    EXPECT_THAT(chain, IsOk());
    chain_ = *std::move(chain);
  }

  static void Train(Training* training, const std::function<void()>& step) {
    for (int i = 0; i < kSteps; ++i) {
      step();
      OptimizerStep(*training);
    }
  }

  // From the weights that it begins with, each time. Returns the measured peak over the predicted.
  void TrainUnder(const Schedule& schedule, double* peak_ratio) {
    planned_ = SmallTraining(GetParam());
    stages_ = std::make_unique<TorchStages>(planned_.stages, TorchOptions{});
    const auto plan = MakePlan(chain_, platform_, schedule, {.places_values = false});
    ASSERT_THAT(plan, IsOk());
    const auto executor = PlanExecutor::Create(&*plan, &device_);
    ASSERT_THAT(executor, IsOk());
    at::manual_seed(12);
    int64_t peak = 0;
    Train(&planned_, [&] {
      const int64_t others = HostMemory().LiveBytes();
      HostMemory().ResetPeak();
      // A copy that nobody else holds.
      stages_->Feed(planned_.input.clone(), planned_.loss);
      ASSERT_THAT((*executor)->Step(stages_.get()), IsOk());
      peak = HostMemory().PeakBytes() - others;
    });
    EXPECT_EQ(Difference(StateOf(planned_), expected_), "");
    *peak_ratio =
        static_cast<double>(peak) / static_cast<double>(plan->prediction.peak_memory_bytes);
  }

  HostDevice device_;
  Training planned_;
  std::vector<at::Tensor> expected_;
  std::unique_ptr<TorchStages> stages_;
  Chain chain_;
  Platform platform_ = [] {
    Platform platform = Memory(int64_t{1} << 40);
    platform.offload_bytes_per_second = 1e10;
    return platform;
  }();
};

INSTANTIATE_TEST_SUITE_P(Networks, TrainingTest, testing::Values("resnet18", "gpt2"));

TEST_P(TrainingTest, IsThePlainOneUnderEveryBudget) {
  const int64_t low = FloorOfMemory(chain_).bytes;
  const int64_t high = StoreAllPeakBytes(chain_);
  for (const int percent : {15, 40, 70, 100}) {
    SCOPED_TRACE(percent);
    const Platform platform = Memory(low + (high - low) * percent / 100);
    const auto answer = AnswerRequest({chain_, platform, "auto", {}}, {});
    ASSERT_THAT(answer, IsOk());
    ASSERT_NE(answer->outcome, Outcome::kInfeasible);
    double peak_ratio = 0;
    TrainUnder(answer->schedule, &peak_ratio);
    EXPECT_NEAR(peak_ratio, 1, 0.05);
  }
}

TEST_P(TrainingTest, IsThePlainOneUnderEverySolverWithTransfers) {
  const int64_t low = FloorOfMemory(chain_).bytes;
  const int64_t high = StoreAllPeakBytes(chain_);
  std::mt19937 random(13);
  for (const SolverInfo& solver : AllSolvers()) {
    SCOPED_TRACE(solver.description.name);
    const auto answer = AnswerRequest(
        {chain_, Memory(low + (high - low) / 2), std::string(solver.description.name), {}}, {});
    ASSERT_THAT(answer, IsOk());
    if (answer->outcome == Outcome::kInfeasible) continue;
    double peak_ratio = 0;
    TrainUnder(WithTransfers(chain_, answer->schedule, 0.7, &random), &peak_ratio);
    // Values that come back just before a computation may wait for it without having come.
    EXPECT_LE(peak_ratio, 1.05);
  }
}

}  // namespace
}  // namespace stowage
