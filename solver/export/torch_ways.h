// What exports to PyTorch's frameworks share about layers that are saved in part: which calls of
// operators each way keeps, and what torch.utils.checkpoint takes as `context_fn`.
#ifndef STOWAGE_SOLVER_EXPORT_TORCH_WAYS_H_
#define STOWAGE_SOLVER_EXPORT_TORCH_WAYS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "solver/export/targets.h"

namespace stowage {

// Python: the dictionaries IN_PART, of layers numbered from `first_number`, and WAYS, by operators.
// Requires: SavesInPart().
std::string WayTables(const ExportedPlan& plan, absl::string_view unit, int first_number);

// The imports of kKeep, of the standard library and of torch. It also takes partial and reduce.
extern const absl::string_view kImportsOfKeep;
extern const absl::string_view kImportsOfModes;
// Python: keep(way), for `context_fn`.
extern const absl::string_view kKeep;

}  // namespace stowage

#endif  // STOWAGE_SOLVER_EXPORT_TORCH_WAYS_H_
