// Exports that are solved in this process.
#ifndef STOWAGE_CLIENT_EXPORT_LOCAL_EXPORT_H_
#define STOWAGE_CLIENT_EXPORT_LOCAL_EXPORT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/local_scheduler.h"
#include "solver/export/export.h"

namespace stowage {

// The best plan of the target, compared with what `auto` finds. Infeasible is an answer. Errors:
// those of LocalScheduler::Solve() and ExportOf().
// Requires: RequestViolations() of such a solve are empty. Thread-safe.
absl::StatusOr<Export> MakeExport(const ExportRequest& request, const LocalOptions& options);

// DEADLINE_EXCEEDED where time ran out before it was known whether the target has a plan: neither
// one nor infeasible.
absl::Status KnownInTime(const ExportRequest& request, const Export& result);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_EXPORT_LOCAL_EXPORT_H_
