// The settings of a framework side by side: what each costs on a chain, the fastest first.
#ifndef STOWAGE_CLIENT_EXPORT_COMPARE_H_
#define STOWAGE_CLIENT_EXPORT_COMPARE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/local_scheduler.h"
#include "solver/export/export.h"

namespace stowage {

// Every setting that has a name (named_setting.h), and "TARGET: best" where the target expresses
// plans without a name. Those that fit come first, by makespan, then by peak; behind them the
// others by peak. Without schedules, which would be as many
// as layers. Settings that would run a stage twice that may run once are left out.
// Errors: those of MakeExport(). Requires: as MakeExport(). Thread-safe.
absl::StatusOr<std::vector<ComparedSchedule>> CompareSettings(const ExportRequest& request,
                                                              const LocalOptions& options);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_EXPORT_COMPARE_H_
