// A network on a device, profiled, solved for and trained.
#ifndef STOWAGE_TESTS_GPU_BENCH_H_
#define STOWAGE_TESTS_GPU_BENCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/agent/plan.h"
#include "client/torch/memory_meter.h"
#include "client/torch/profiler.h"
#include "client/train/session.h"
#include "solver/base/thread_pool.h"
#include "tests/gpu/lab.h"

namespace stowage {

struct BenchOptions {
  int steps = 20;
  ProfileOptions profile = {};
};

// A schedule, and whose it is.
struct Solved {
  Schedule schedule;
  std::string solver;
};

// A schedule that was trained under.
struct Trained {
  Prediction predicted;
  Measured measured;
};

// Not thread-safe.
class Bench {
 public:
  // Makes the network. Borrows `device`. Errors: INVALID_ARGUMENT for a network that is none,
  // RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<Bench>> Open(const Model& model, TrainDevice* device,
                                                     const BenchOptions& options);
  // Measures chain and link, which whatever is solved needs. Errors: those of the profiler.
  absl::Status Profile();

  const Model& model() const { return model_; }
  Session& session() { return *session_; }
  TrainDevice& device() { return device_; }
  const Chain& chain() const { return chain_; }
  Chain& chain() { return chain_; }
  const Platform& platform() const { return platform_; }  // its memory is as good as unlimited
  int seed() const { return kSeed; }

  // A share of the range from the least memory that any schedule needs to storing everything.
  int64_t BudgetOf(double share) const;
  double RateOf(const Measured& measured) const;  // samples a second

  // nullopt: the solver has no schedule within so much memory.
  absl::StatusOr<std::optional<Solved>> Solve(const std::string& solver, int64_t memory_bytes);
  absl::StatusOr<Plan> PlanOf(const Schedule& schedule) const;
  // RESOURCE_EXHAUSTED where it does not fit.
  absl::StatusOr<Trained> TrainUnder(const Schedule& schedule);

 private:
  static constexpr int kSeed = 1;

  Bench(const Model& model, TrainDevice* device, const BenchOptions& options);
  absl::Status Make();

  const Model model_;
  TrainDevice& device_;
  const BenchOptions options_;
  MemoryMeter& meter_;
  ThreadPool helpers_;
  std::optional<Session> session_;
  Chain chain_;
  Platform platform_;
};

// "12 copies, 3 recomputed": what a schedule does beside one forward and one backward a stage.
std::string WorkOf(const Schedule& schedule);

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_BENCH_H_
