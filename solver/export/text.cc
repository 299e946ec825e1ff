#include "solver/export/text.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stowage {

std::string HashComments(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) absl::StrAppend(&text, "# ", line, "\n");
  return text;
}

std::string SegmentLines(const ExportedPlan& plan) {
  std::string text;
  for (const auto& [first, last, recomputed, save_option] : plan.pieces) {
    if (!recomputed) continue;
    absl::StrAppend(&text, "    (", first, ", ", last, "),  # ", plan.layers->name(first));
    if (first != last) absl::StrAppend(&text, " to ", plan.layers->name(last));
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::string NumberLines(const std::vector<int>& numbers) {
  std::string text;
  std::string line;
  for (const int number : numbers) {
    const std::string item = absl::StrCat(number, ",");
    if (line.size() + 1 + item.size() > 88) {
      absl::StrAppend(&text, line, "\n");
      line.clear();
    }
    absl::StrAppend(&line, line.empty() ? "    " : " ", item);
  }
  return line.empty() ? text : absl::StrCat(text, line, "\n");
}

bool SavesInPart(const ExportedPlan& plan) {
  return absl::c_any_of(plan.pieces, [](const Piece& piece) { return piece.save_option != 0; });
}

std::string NamesText(const ExportedPlan& plan, int layer, const Piece& piece) {
  if (piece.save_option == 0) return "[]";
  return absl::StrCat("[",
                      absl::StrJoin(plan.layers->way_names(layer, piece.save_option), ", ",
                                    [](std::string* text, const std::string& name) {
                                      absl::StrAppend(text, "\"", name, "\"");
                                    }),
                      "]");
}

absl::Status SeveralLayersError(absl::string_view framework, const Piece& piece) {
  return absl::InvalidArgumentError(
      absl::StrCat(framework, " recomputes layers one by one, and this plan layers ", piece.first,
                   " to ", piece.last, " as one segment; solve with the solver per_layer"));
}

absl::StatusOr<std::vector<int>> RecomputedLayers(const ExportedPlan& plan,
                                                  absl::string_view framework) {
  std::vector<int> layers;
  for (const Piece& piece : plan.pieces) {
    if (!piece.recomputed) continue;
    if (piece.first != piece.last) return SeveralLayersError(framework, piece);
    layers.push_back(piece.first - 1);
  }
  return layers;
}

}  // namespace stowage
