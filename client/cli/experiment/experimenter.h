// Runs the solves of a sweep in this process and records a row for each.
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
#include "client/lib/local_scheduler.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/request.h"

namespace stowage {

struct NetworkProfile {
  std::string name;
  Chain chain;
  Platform platform;  // without a budget and an offload bandwidth
};

// One solve: a network, a budget, a bandwidth and a solver.
struct Point {
  const NetworkProfile* network = nullptr;
  double alpha = 0;
  double reduction = 0;  // not 0: the budget is M_high divided by it, and alpha is unused
  double bandwidth = 0;  // GB/s
  std::string solver;
};

// The request of a point. Errors: those of ParseBudget(), which an alpha in 0..1 does not cause.
absl::StatusOr<SolveRequest> RequestFor(const Point& point, int64_t slots);

// Thread-compatible.
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

  // Solves all points of one network. A row is recorded for an infeasible or failed solve, too.
  // Errors: those of `record`. Requires: the solvers are in the catalog and the requests valid.
  absl::Status SolveNetwork(const NetworkProfile& network);

  const std::vector<Measurement>& rows() const { return rows_; }

  // OK if every solve had an answer; else the first error, and how many there were.
  absl::Status Failure() const;

 private:
  absl::Status SolveWithAll(Point point);  // with every solver of the sweep
  absl::Status SolveAndRecord(const Point& point);
  // Fills in `row`; returns a remark for the progress line.
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
