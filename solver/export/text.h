// What the targets' files share: comments, lists and errors.
#ifndef STOWAGE_SOLVER_EXPORT_TEXT_H_
#define STOWAGE_SOLVER_EXPORT_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "solver/export/targets.h"

namespace stowage {

// "# line" for each.
std::string HashComments(const std::vector<std::string>& lines);

// "    (2, 3),  # block1 to block2" for each segment that runs again, indented by four.
std::string SegmentLines(const ExportedPlan& plan);

// The numbers, separated by commas, in lines of at most 88 characters, indented by four.
std::string NumberLines(const std::vector<int>& numbers);

// Whether the plan saves a layer in part. O(pieces).
bool SavesInPart(const ExportedPlan& plan);

// Python's list of what the layer of a piece keeps, as in ["attention", "mlp"]; of one that runs
// again, or is saved whole, an empty one.
std::string NamesText(const ExportedPlan& plan, int layer, const Piece& piece);

// INVALID_ARGUMENT, of a piece that runs several layers again as one segment.
absl::Status SeveralLayersError(absl::string_view framework, const Piece& piece);

// The layers that run again, counted from 0, as frameworks count theirs.
// Errors: INVALID_ARGUMENT where several run again as one segment.
absl::StatusOr<std::vector<int>> RecomputedLayers(const ExportedPlan& plan,
                                                  absl::string_view framework);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_EXPORT_TEXT_H_
