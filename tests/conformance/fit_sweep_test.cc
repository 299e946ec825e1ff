// Fit on five networks, within a small and a large budget by turns, thoroughly four, by every
// solver: no step takes more than its budget, and losses, weights and buffers are those of plain
// training to the bit.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "client/torch/base/memory_meter.h"
#include "client/torch/fit.h"
#include "client/torch/profile/plain_step.h"
#include "client/train/interleaved.h"
#include "client/train/networks.h"
#include "solver/solve/catalog.h"
#include "tests/support/effort.h"
#include "tests/support/status_matchers.h"
#include "tests/support/training.h"

namespace stowage {
namespace {

constexpr int kSteps = 3;

struct Sweep {
  std::string network;
  std::string solver;
  bool recomputes = false;
  bool offloads = false;
  bool within_little = false;  // unless all budgets are tried
};
std::ostream& operator<<(std::ostream& out, const Sweep& sweep) {
  return out << sweep.network << " by " << sweep.solver;
}

// All solvers on a residual network and on a transformer, two on the deeper ones.
std::vector<Sweep> Sweeps() {
  std::vector<Sweep> sweeps;
  for (const std::string& network : NetworkNames()) {
    for (const SolverInfo& info : AllSolvers()) {
      const std::string solver(info.description.name);
      const bool all = network == "resnet18" || network == "gpt2";
      if (all || solver == "auto" || solver == "rotor") {
        sweeps.push_back({network, solver, info.description.recomputes, info.description.offloads,
                          /*within_little=*/sweeps.size() % 2 == 0});
      }
    }
  }
  return sweeps;
}

InterleavedTraining TrainingOf(const std::string& name) {
  HostMemory();  // counts from here on
  at::manual_seed(1);
  absl::StatusOr<Network> network = MakeNetwork(name, {.batch = 4,
                                                       .image = 32,
                                                       .channels = 8,
                                                       .classes = 10,
                                                       .layers = 4,
                                                       .width = 64,
                                                       .sequence = 64,
                                                       .vocabulary = 100});
  EXPECT_THAT(network, IsOk());
  return {name, *std::move(network)};
}

void Train(InterleavedTraining* training) {
  for (uint64_t step = 0; step < kSteps; ++step) {
    ASSERT_THAT(training->Train(/*seed=*/step, /*measured=*/true), IsOk());
  }
}

std::vector<at::Tensor> WeightsAndBuffersOf(const InterleavedTraining& training) {
  const TorchStages stages(training.network().stages, {});
  std::vector<at::Tensor> tensors = stages.Parameters();
  for (const at::Tensor& buffer : stages.Buffers()) tensors.push_back(buffer);
  return tensors;
}

class FitSweepTest : public testing::TestWithParam<Sweep> {};

INSTANTIATE_TEST_SUITE_P(Fit, FitSweepTest, testing::ValuesIn(Sweeps()));

TEST_P(FitSweepTest, KeepsTheBudgetAndTrainsToTheBit) {
  const Sweep& sweep = GetParam();
  InterleavedTraining plain = TrainingOf(sweep.network);
  plain.step = [&network = plain.network()] {
    return PlainStep(network.stages, network.input, network.loss);
  };
  Train(&plain);
  int trained = 0;
  std::vector<const char*> budgets = {sweep.within_little ? "20%" : "80%"};
  if (IsThorough()) budgets = {"20%", "40%", "60%", "80%"};
  for (const char* memory : budgets) {
    SCOPED_TRACE(memory);
    InterleavedTraining planned = TrainingOf(sweep.network);
    const Network& network = planned.network();
    std::unique_ptr<Fit> fit;
    try {
      fit = std::make_unique<Fit>(network.stages, network.input, network.loss,
                                  FitOptions{.memory = memory,
                                             .solver = sweep.solver,
                                             .offload = sweep.offloads && sweep.solver != "auto"});
    } catch (const c10::OutOfMemoryError& error) {
      EXPECT_THAT(error.what_without_backtrace(), testing::HasSubstr("within memory = "));
      continue;
    }
    planned.step = [&] {
      return absl::StatusOr<at::Tensor>(fit->step(network.input, network.loss));
    };
    Train(&planned);
    EXPECT_LE(planned.samples.peak_bytes, fit->plan().budget_bytes) << fit->summary();
    EXPECT_EQ(planned.samples.losses, plain.samples.losses) << fit->summary();
    EXPECT_EQ(Difference(WeightsAndBuffersOf(planned), WeightsAndBuffersOf(plain)), "")
        << fit->summary();
    ++trained;
  }
  RecordProperty("trained", trained);
  // What may recompute has a schedule within the largest budget; store_all may not.
  if (sweep.recomputes && budgets.back() == std::string("80%")) {
    EXPECT_GT(trained, 0);
  }
}

}  // namespace
}  // namespace stowage
