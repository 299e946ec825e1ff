// Profiles, solves and trains small versions of real networks under budgets. The results equal
// those of plain training bit by bit, and the measured peak equals the prediction. Runs on the
// host, or on the device that STOWAGE_TEST_DEVICE names, such as cuda:0; there some kernels may add
// in any order, and allocations are rounded up to sizes that are large for these networks.
#include "tests/support/training.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "absl/strings/str_cat.h"
#include "client/agent/executor.h"
#include "client/torch/base/memory_meter.h"
#include "client/torch/base/torch_device.h"
#include "client/torch/join/graph_mode.h"
#include "client/torch/profile/profiler.h"
#include "client/train/networks.h"
#include "gmock/gmock.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"
#include "tests/support/transfers.h"

namespace stowage {
namespace {

TorchDevice TheDevice() {
  const char* const name = std::getenv("STOWAGE_TEST_DEVICE");
  auto device = OpenDevice(name == nullptr ? "cpu" : name, {});
  EXPECT_THAT(device, IsOk());
  if (!device->torch.is_cpu()) {
    at::globalContext().setDeterministicCuDNN(true);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    at::globalContext().setAllowTF32CuDNN(false);
  }
  return *std::move(device);
}

bool HasSkips(absl::string_view name) { return name == "unet" || name == "tuples"; }

Training SmallTraining(absl::string_view name, c10::Device device, int layers) {
  if (name == "unet") return UNetTraining(device);
  if (name == "tuples") return TupleTraining(device);
  at::manual_seed(11);
  const NetworkOptions options{.device = device,
                               .batch = 4,
                               .image = 96,
                               .channels = 16,
                               .classes = 10,
                               .layers = layers,
                               .width = 64,
                               .sequence = 32,
                               .vocabulary = 100};
  auto network = MakeNetwork(name, options);
  return {network->stages, network->input, network->loss};
}

class TrainingTest : public testing::TestWithParam<const char*> {
 protected:
  static constexpr int kSteps = 2;

  explicit TrainingTest(int layers = 6)
      : layers_(layers),
        device_(TheDevice()),
        options_{.device = device_.torch, .granularity = MemoryOf(device_.torch).Granularity()},
        memory_(MemoryOf(device_.torch)),
        planned_(SmallTraining(GetParam(), device_.torch, layers_)) {
    Training plain = SmallTraining(GetParam(), device_.torch, layers_);
    at::manual_seed(12);
    Train(&plain, [&plain] { PlainBackward(plain); });
    expected_ = StateOf(plain);
    chain_ = Profile({.repeats = 1});
  }

  // In place of measured times, which other work on the machine changes and with them the
  // schedules: times of each draw are the same in every run, and so are the schedules.
  void GiveTimes(unsigned draw) {
    std::mt19937 random(draw);
    const auto seconds = [&random] { return 1e-3 * static_cast<double>(1 + random() % 8); };
    for (Stage& stage : chain_.stages) {
      stage.forward_seconds = seconds();
      stage.backward_seconds = seconds() + stage.forward_seconds;
      if (stage.replay_seconds.has_value()) stage.replay_seconds = stage.forward_seconds / 2;
    }
    chain_.graph_entry_seconds = 1e-4;
  }

  Chain Profile(const ProfileOptions& options) {
    stages_ = std::make_unique<TorchStages>(planned_.stages, options_);
    stages_->Feed({planned_.input, planned_.sides}, planned_.loss);
    auto chain = ProfileChain(stages_.get(), device_.agent.get(), &memory_, options);
    EXPECT_THAT(chain, IsOk());
    return *std::move(chain);
  }

  static void Train(Training* training, const std::function<void()>& step) {
    for (int i = 0; i < kSteps; ++i) {
      step();
      OptimizerStep(*training);
    }
  }

  // Trains from the initial weights. Returns the ratio of the measured to the predicted peak.
  void TrainUnder(const Schedule& schedule, double* peak_ratio) {
    planned_ = SmallTraining(GetParam(), device_.torch, layers_);
    const auto plan = MakeFrameworkPlan(chain_, platform_, schedule);
    ASSERT_THAT(plan, IsOk());
    const auto in_modes = InModes(planned_.stages, plan->execution);
    ASSERT_THAT(in_modes, IsOk());
    stages_ = std::make_unique<TorchStages>(*in_modes, options_);
    const auto executor = FrameworkExecutor::Create(&*plan, device_.agent.get());
    ASSERT_THAT(executor, IsOk());
    at::manual_seed(12);
    int64_t peak = 0;
    Train(&planned_, [&] {
      const int64_t others = memory_.LiveBytes();
      memory_.ResetPeak();
      // A copy without other references, so that it can be freed.
      stages_->Feed({planned_.input.clone(), planned_.sides}, planned_.loss);
      ASSERT_THAT((*executor)->Step(stages_.get()), IsOk());
      peak = memory_.PeakBytes() - others;
    });
    const double tolerance = device_.torch.is_cpu() ? 0 : 1e-3;
    EXPECT_EQ(Difference(StateOf(planned_), expected_, tolerance), "");
    *peak_ratio =
        static_cast<double>(peak) / static_cast<double>(plan->prediction.peak_memory_bytes);
  }

  // Numbers of operations by kind; fused: of several stages.
  struct Counts {
    int eager = 0;
    int graph = 0;
    int fused = 0;
    int transfers = 0;
  };
  static void Count(const Schedule& schedule, Counts* counts) {
    for (const Operation& operation : schedule.operations) {
      if (!IsCompute(operation.kind)) {
        ++counts->transfers;
        continue;
      }
      ++(operation.mode == Mode::kGraph ? counts->graph : counts->eager);
      counts->fused += operation.first() < operation.stage ? 1 : 0;
    }
  }

  Schedule Solved(const char* solver, int percent, const Platform& platform) {
    const int64_t low = FloorOfMemory(chain_).bytes;
    const int64_t high = StoreAllPeakBytes(chain_);
    Platform limited = platform;
    limited.memory_bytes = low + (high - low) * percent / 100;
    SolveRequest request{chain_, limited, solver, {}};
    const auto answer = AnswerRequest(request, {});
    EXPECT_THAT(answer, IsOk());
    return answer->outcome == Outcome::kInfeasible ? Schedule() : answer->schedule;
  }

  const int layers_;  // of a transformer
  TorchDevice device_;
  const TorchOptions options_;
  MemoryMeter& memory_;
  const double max_error_ = device_.torch.is_cpu() ? 0.05 : 0.3;  // of the predicted peak
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

INSTANTIATE_TEST_SUITE_P(Networks, TrainingTest,
                         testing::Values("resnet18", "densenet121", "gpt2", "unet", "tuples"));

TEST_P(TrainingTest, IsThePlainOneUnderEveryBudget) {
  const int64_t low = FloorOfMemory(chain_).bytes;
  const int64_t high = StoreAllPeakBytes(chain_);
  for (const unsigned draw : {1U, 2U, 3U}) {
    GiveTimes(draw);
    for (const int percent : {0, 15, 40, 70, 100}) {
      SCOPED_TRACE(absl::StrCat(percent, " % with draw ", draw));
      const Platform platform = Memory(low + (high - low) * percent / 100);
      const auto answer = AnswerRequest({chain_, platform, "auto", {}}, {});
      ASSERT_THAT(answer, IsOk());
      if (percent == 0 && answer->outcome == Outcome::kInfeasible) continue;  // a lower bound
      ASSERT_NE(answer->outcome, Outcome::kInfeasible);
      double peak_ratio = 0;
      TrainUnder(answer->schedule, &peak_ratio);
      // Values that a skip crosses share its memory, which the chain counts in each, as it counts
      // the output that a replay which ends early does not compute.
      EXPECT_GE(peak_ratio, HasSkips(GetParam()) ? 0 : 1 - 2 * max_error_);
      EXPECT_LE(peak_ratio, 1 + max_error_);
    }
  }
}

TEST_P(TrainingTest, IsThePlainOneUnderEverySolverWithTransfers) {
  GiveTimes(4);
  const int64_t low = FloorOfMemory(chain_).bytes;
  const int64_t high = StoreAllPeakBytes(chain_);
  std::mt19937 random(13);
  for (const SolverInfo& solver : AllSolvers()) {
    SCOPED_TRACE(solver.description.name);
    const auto answer = AnswerRequest(
        {chain_, Memory(low + (high - low) / 2), std::string(solver.description.name), {}}, {});
    ASSERT_THAT(answer, IsOk());
    if (answer->outcome == Outcome::kInfeasible) continue;
    const Schedule schedule = WithTransfers(chain_, answer->schedule, 0.7, &random);
    double peak_ratio = 0;
    TrainUnder(schedule, &peak_ratio);
    // Prefetched values may be allocated later than the schedule says, so the peak may be lower.
    EXPECT_LE(peak_ratio, 1 + max_error_);
  }
}

class SkipsTrainingTest : public TrainingTest {};

INSTANTIATE_TEST_SUITE_P(Networks, SkipsTrainingTest, testing::Values("unet", "tuples"));

TEST_P(SkipsTrainingTest, IsThePlainOneUnderEverySolverAndBudget) {
  GiveTimes(5);
  const int64_t low = FloorOfMemory(chain_).bytes;
  const int64_t high = StoreAllPeakBytes(chain_);
  for (const SolverInfo& solver : AllSolvers()) {
    for (const int percent : {20, 40, 60, 80}) {
      SCOPED_TRACE(absl::StrCat(solver.description.name, " at ", percent, " %"));
      const Platform platform = Memory(low + (high - low) * percent / 100);
      const auto answer =
          AnswerRequest({chain_, platform, std::string(solver.description.name), {}}, {});
      ASSERT_THAT(answer, IsOk());
      if (answer->outcome == Outcome::kInfeasible) continue;
      double peak_ratio = 0;
      TrainUnder(answer->schedule, &peak_ratio);
      EXPECT_LE(peak_ratio, 1);
    }
  }
}

TEST_P(SkipsTrainingTest, LeavesStagesWithTuplesOutOfGraphMode) {
  chain_ = Profile({.repeats = 1, .graph_mode = true});
  Counts counts;
  for (int l = 1; l <= chain_.length(); ++l) {
    Stage& stage = chain_.stages[static_cast<size_t>(l) - 1];
    EXPECT_EQ(stage.control_flow, stages_->stage(l).forward == nullptr) << stage.name;
    if (!stage.graph.has_value() || stage.control_flow) continue;
    stage.graph->forward_seconds = 0;  // so that the fastest schedules have graph mode
    stage.graph->backward_seconds = 0;
  }
  for (const int percent : {30, 100}) {
    SCOPED_TRACE(percent);
    const Schedule schedule = Solved("mixed_mode", percent, Memory(0));
    Count(schedule, &counts);
    double peak_ratio = 0;
    TrainUnder(schedule, &peak_ratio);
    EXPECT_LE(peak_ratio, 1);
  }
  EXPECT_GT(counts.graph, 0);
  EXPECT_GT(counts.eager, 0);
}

// Gives graph mode other times, so that the fastest schedules mix the modes.
class MixedTrainingTest : public TrainingTest {
 protected:
  MixedTrainingTest() : TrainingTest(/*layers=*/4) {
    chain_ = Profile({.repeats = 1, .graph_mode = true});
    GiveTimes(6);
    const ChainUnits units(chain_);
    for (size_t u = 0; u + 1 < units.size(); ++u) {
      EXPECT_TRUE(units[u].has_graph);
      double eager = 0;
      for (int l = units[u].first; l <= units[u].last; ++l) {
        eager += chain_.stage(l).forward_seconds + chain_.stage(l).backward_seconds;
      }
      GraphCosts& graph = *chain_.stages[static_cast<size_t>(units[u].last) - 1].graph;
      graph.forward_seconds = (u % 3 == 1 ? 0.8 : 0.2) * eager;
      graph.backward_seconds = 0.4 * eager;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Networks, MixedTrainingTest, testing::Values("resnet18", "gpt2"));

TEST_P(MixedTrainingTest, IsThePlainOneUnderEveryMixOfModes) {
  Counts counts;
  for (const char* solver : {"mixed_mode", "mixed_mode_exact", "auto"}) {
    for (const int percent : {20, 50, 100}) {
      SCOPED_TRACE(absl::StrCat(solver, " at ", percent, " %"));
      const Schedule schedule = Solved(solver, percent, Memory(0));
      if (schedule.operations.empty()) continue;  // no schedule within this budget
      Count(schedule, &counts);
      double peak_ratio = 0;
      TrainUnder(schedule, &peak_ratio);
      EXPECT_GE(peak_ratio, 1 - 3 * max_error_);  // less where a replay ends early
      EXPECT_LE(peak_ratio, 1 + max_error_);
    }
  }
  EXPECT_GT(counts.eager, 0);
  EXPECT_GT(counts.graph, 0);
  if (std::string(GetParam()) == "gpt2") {
    EXPECT_GT(counts.fused, 0);
  }
}

TEST_P(MixedTrainingTest, IsThePlainOneWithTransfers) {
  Counts counts;
  Platform linked = platform_;
  // Fast enough that a step copies a good part of its saved values.
  linked.offload_bytes_per_second =
      static_cast<double>(StoreAllPeakBytes(chain_)) / ComputeSeconds(chain_);
  std::mt19937 random(14);
  for (const int percent : {15, 50}) {
    SCOPED_TRACE(percent);
    const Schedule offloads = Solved("auto", percent, linked);
    const Schedule without = Solved("auto", percent, Memory(0));
    const auto execution = Execution::Of(chain_, ChainUnits(chain_), without);
    ASSERT_THAT(execution, IsOk());
    const Schedule anywhere = execution->ToChain(
        WithTransfers(execution->chain(), execution->FromChain(without), 0.7, &random));
    for (const Schedule& schedule : {offloads, anywhere}) {
      Count(schedule, &counts);
      double peak_ratio = 0;
      TrainUnder(schedule, &peak_ratio);
      EXPECT_LE(peak_ratio, 1 + max_error_);
    }
  }
  EXPECT_GT(counts.graph, 0);
  EXPECT_GT(counts.transfers, 0);
}

}  // namespace
}  // namespace stowage
