// Profiles a network on a device, solves for it and trains it.
#ifndef STOWAGE_TESTS_GPU_BENCH_H_
#define STOWAGE_TESTS_GPU_BENCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/agent/plan.h"
#include "client/torch/base/memory_meter.h"
#include "client/torch/profile/profiler.h"
#include "solver/base/thread_pool.h"
#include "tests/gpu/lab.h"
#include "tests/gpu/session.h"

namespace stowage {

struct BenchOptions {
  int steps = 20;
  ProfileOptions profile = {};
};

// A schedule and its solver.
struct Solved {
  Schedule schedule;
  std::string solver;
};

// A training under a schedule.
struct Trained {
  Prediction predicted;
  TrainingMeasurement measured;
};

// Not thread-safe.
class Bench {
 public:
  // Creates the network. Borrows `device`. Errors: INVALID_ARGUMENT for an unknown network,
  // RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<Bench>> Open(const Model& model, TorchDevice* device,
                                                     const BenchOptions& options);
  // Measures chain and link; required before Solve(). Errors: those of the profiler.
  absl::Status Profile();

  const Model& model() const { return model_; }
  Session& session() { return *session_; }
  TorchDevice& device() { return device_; }
  const Chain& chain() const { return chain_; }
  Chain& chain() { return chain_; }
  const Platform& platform() const { return platform_; }  // with unlimited memory
  int seed() const { return kSeed; }

  // Bytes at `share` of the range from the memory floor (0) to storing everything (1).
  int64_t BudgetOf(double share) const;
  double SamplesPerSecondOf(const TrainingMeasurement& measured) const;

  // nullopt: the solver has no schedule within `memory_bytes`.
  absl::StatusOr<std::optional<Solved>> Solve(const std::string& solver, int64_t memory_bytes);
  absl::StatusOr<FrameworkPlan> PlanOf(const Schedule& schedule) const;
  // Errors: RESOURCE_EXHAUSTED if it does not fit.
  absl::StatusOr<Trained> TrainUnder(const Schedule& schedule);

 private:
  static constexpr int kSeed = 1;

  Bench(const Model& model, TorchDevice* device, const BenchOptions& options);
  absl::Status CreateSession();

  const Model model_;
  TorchDevice& device_;
  const BenchOptions options_;
  MemoryMeter& meter_;
  ThreadPool helpers_;
  std::optional<Session> session_;
  Chain chain_;
  Platform platform_;
};

// "12 offloaded, 3 recomputed": the operations beside one forward and one backward of each stage.
std::string ExtraWorkOf(const Schedule& schedule);

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_BENCH_H_
