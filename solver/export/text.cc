#include "solver/export/text.h"

#include "absl/strings/str_cat.h"

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

absl::StatusOr<std::vector<int>> RecomputedLayers(const ExportedPlan& plan,
                                                  absl::string_view framework) {
  std::vector<int> layers;
  for (const auto& [first, last, recomputed, save_option] : plan.pieces) {
    if (!recomputed) continue;
    if (first != last) {
      return absl::InvalidArgumentError(
          absl::StrCat(framework, " recomputes layers one by one, and this plan layers ", first,
                       " to ", last, " as one segment; solve with the solver per_layer"));
    }
    layers.push_back(first - 1);
  }
  return layers;
}

}  // namespace stowage
