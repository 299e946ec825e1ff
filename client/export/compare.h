// The settings of a framework side by side: what each costs on a chain, the fastest first.
#ifndef STOWAGE_CLIENT_EXPORT_COMPARE_H_
#define STOWAGE_CLIENT_EXPORT_COMPARE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/local_scheduler.h"
#include "solver/export/export.h"

namespace stowage {

// "TARGET:none", "TARGET:all", the target's settings with a number and those of ways that all
// layers have (named_setting.h), and "TARGET: best" where its best plan is a list. Those that fit
// come first, by makespan, then by peak; behind them the others by peak. Settings that would run a
// stage twice that may run once are left out. Schedules are left empty: there would be as many as
// settings. Errors: those of MakeExport(). Requires: as MakeExport(). Thread-safe.
absl::StatusOr<std::vector<ComparedSchedule>> CompareSettings(const ExportRequest& request,
                                                              const LocalOptions& options);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_EXPORT_COMPARE_H_
