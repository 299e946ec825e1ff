// Real networks, small: profiled, solved and trained under budgets. What comes out is what plain
// training leaves, to the bit, and takes the memory that was predicted. On the host, or where
// STOWAGE_TEST_DEVICE says cuda:0: there kernels may add in any order, and memory comes in pieces
// that are large for such networks.
#include "tests/support/training.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "client/agent/executor.h"
#include "client/torch/memory_meter.h"
#include "client/torch/profiler.h"
#include "client/train/networks.h"
#include "client/train/train_device.h"
#include "gmock/gmock.h"
#include "solver/algorithms/answer.h"
#include "solver/algorithms/catalog.h"
#include "solver/simulator/lower_bound.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"
#include "tests/support/transfers.h"

namespace stowage {
namespace {

TrainDevice TheDevice() {
  const char* const name = std::getenv("STOWAGE_TEST_DEVICE");
  auto device = OpenDevice(name == nullptr ? "cpu" : name, {});
  EXPECT_THAT(device, IsOk());
  return *std::move(device);
}

Training SmallTraining(const char* name, c10::Device device) {
  at::manual_seed(11);
  const NetworkOptions options{.device = device,
                               .batch = 4,
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

  TrainingTest()
      : device_(TheDevice()),
        options_{.device = device_.torch, .granularity = MemoryOf(device_.torch).Granularity()},
        memory_(MemoryOf(device_.torch)),
        planned_(SmallTraining(GetParam(), device_.torch)) {
    Training plain = SmallTraining(GetParam(), device_.torch);
    at::manual_seed(12);
    Train(&plain, [&plain] { PlainBackward(plain); });
    expected_ = StateOf(plain);
    stages_ = std::make_unique<TorchStages>(planned_.stages, options_);
    stages_->Feed(planned_.input, planned_.loss);
    auto chain = ProfileChain(stages_.get(), device_.agent.get(), &memory_, {.repeats = 1});
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
    planned_ = SmallTraining(GetParam(), device_.torch);
    stages_ = std::make_unique<TorchStages>(planned_.stages, options_);
    const auto plan = MakePlan(chain_, platform_, schedule, {.places_values = false});
    ASSERT_THAT(plan, IsOk());
    const auto executor = PlanExecutor::Create(&*plan, device_.agent.get());
    ASSERT_THAT(executor, IsOk());
    at::manual_seed(12);
    int64_t peak = 0;
    Train(&planned_, [&] {
      const int64_t others = memory_.LiveBytes();
      memory_.ResetPeak();
      // A copy that nobody else holds.
      stages_->Feed(planned_.input.clone(), planned_.loss);
      ASSERT_THAT((*executor)->Step(stages_.get()), IsOk());
      peak = memory_.PeakBytes() - others;
    });
    const double tolerance = device_.torch.is_cpu() ? 0 : 1e-3;
    EXPECT_EQ(Difference(StateOf(planned_), expected_, tolerance), "");
    *peak_ratio =
        static_cast<double>(peak) / static_cast<double>(plan->prediction.peak_memory_bytes);
  }

  TrainDevice device_;
  const TorchOptions options_;
  MemoryMeter& memory_;
  const double most_error_ = device_.torch.is_cpu() ? 0.05 : 0.3;  // of the predicted peak
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
    EXPECT_NEAR(peak_ratio, 1, most_error_);
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
    EXPECT_LE(peak_ratio, 1 + most_error_);
  }
}

}  // namespace
}  // namespace stowage
