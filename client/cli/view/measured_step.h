// A step that ran, from the trace that stowage-train or the Python package wrote of it, as the page
// shows schedules.
#ifndef STOWAGE_CLIENT_CLI_VIEW_MEASURED_STEP_H_
#define STOWAGE_CLIENT_CLI_VIEW_MEASURED_STEP_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stowage/v1/view.pb.h"

namespace stowage {

// Whether the text is a trace rather than a schedule, judged by its first key that only one has.
bool IsTrace(absl::string_view json);

// `predicted` with the times and the memory of the trace's process "measured" in the place of the
// simulator's. Its peaks say what was measured and not what was held; what no trace has, such as
// memory of the host, is 0. `store_all_seconds` is of View.
// Errors: INVALID_ARGUMENT where the trace is of another schedule or has no measured step, as in
//   "operations[12] is BACKWARD 4 in the trace and FORWARD_SAVE 3 in the schedule".
absl::StatusOr<v1::ViewedSchedule> MeasuredStep(absl::string_view json,
                                                const v1::ViewedSchedule& predicted,
                                                double store_all_seconds);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_VIEW_MEASURED_STEP_H_
