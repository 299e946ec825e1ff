// Exports: the best plan that a framework can express for a chain and a budget, as the framework's
// own settings, compared with what no framework limits and with what its users set by default.
#ifndef STOWAGE_CLIENT_EXPORT_EXPORT_H_
#define STOWAGE_CLIENT_EXPORT_EXPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/local_scheduler.h"
#include "solver/export/layers.h"
#include "solver/export/targets.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"
#include "solver/model/schedule.h"

namespace stowage {

// One of the schedules that an export compares, simulated on the request's chain.
struct ComparedSchedule {
  std::string name;  // "full schedule (rotor)"
  Schedule schedule;
  Prediction prediction;
  bool fits = false;  // the limits of the platform
};

struct ExportRequest {
  const Target* target = nullptr;  // not null
  Chain chain;
  Platform platform;
  StageSpan stages;  // that are layers, by ParseStages(); the others are saved
};

struct Export {
  std::optional<ComparedSchedule> full;      // what `auto` finds; unset: nothing fits
  std::optional<ComparedSchedule> exported;  // unset: the target expresses nothing that fits
  // The target's default, which may not fit; unset: it would run a stage twice that may run once.
  std::optional<ComparedSchedule> usual;
  std::optional<int> forbidden_stage;  // that one; set exactly where `usual` is not
  // With which the target expresses a plan; unset: none is known.
  std::optional<int64_t> minimum_memory_bytes;
  std::string text;  // settings or code, with the comparison as comments; empty without a plan
};

// Solves in this process. Infeasible is an answer. Errors: those of LocalScheduler::Solve().
// Requires: RequestViolations() of such a solve are empty. Thread-safe.
absl::StatusOr<Export> MakeExport(const ExportRequest& request, const LocalOptions& options);

// "full schedule (rotor)   211.0 ms  +27.5 %  peak 973.97 MiB", a line for each schedule; the
// percentages are over storing everything. Of a default that would run stage 4 twice, which may run
// once: "usual: every layer recomputed  not possible: stage 4 may run once".
std::vector<std::string> ComparisonLines(const Target& target, const Export& result);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_EXPORT_EXPORT_H_
