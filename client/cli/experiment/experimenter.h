// Asks solvers the questions of a sweep, in this process, and records what they answer.
#ifndef STOWAGE_CLIENT_CLI_EXPERIMENT_EXPERIMENTER_H_
#define STOWAGE_CLIENT_CLI_EXPERIMENT_EXPERIMENTER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/experiment/measurement.h"
#include "client/cli/experiment/sweep.h"
#include "client/lib/local.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/request.h"

namespace stowage {

struct Network {
  std::string name;
  Chain chain;
  Platform platform;  // without a budget and an offload bandwidth
};

// One question to one solver.
struct Point {
  const Network* network = nullptr;
  double alpha = 0;
  double reduction = 0;  // not 0: the budget instead of alpha
  double bandwidth = 0;  // GB/s
  std::string solver;
};

// The request that a point stands for. Errors: those of ParseBudget(), of which alphas within 0..1
// have none.
absl::StatusOr<SolveRequest> RequestFor(const Point& point, int64_t slots);

// Not thread-safe.
class Experimenter {
 public:
  struct Settings {
    LocalOptions local;
    int64_t slots = 0;
    std::function<absl::Status(const Measurement&)> record;  // called with every row at once
    std::function<void(const std::string& line)> progress;   // may be empty
  };
  // Borrows `sweep`.
  Experimenter(const Sweep& sweep, Settings settings, size_t networks);

  // Asks all about one network. No schedule and no answer are outcomes, not errors. Errors: those
  // of `record`, which end it. Requires: the solvers are in the catalog and the requests sound.
  absl::Status Visit(const Network& network);

  const std::vector<Measurement>& rows() const { return rows_; }

  // OK when every question has an answer; else the first that has none, and how many there are.
  absl::Status Failure() const;

 private:
  absl::Status AskAll(Point point);
  absl::Status Ask(const Point& point);
  std::string Solve(const Point& point, const SolveRequest& request, Measurement* row);
  void Report(const Point& point, const std::string& remark) const;

  const Sweep& sweep_;
  const Settings settings_;
  const size_t count_;  // of all points
  std::vector<Measurement> rows_;
  size_t failed_ = 0;
  absl::Status first_failure_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_EXPERIMENT_EXPERIMENTER_H_
