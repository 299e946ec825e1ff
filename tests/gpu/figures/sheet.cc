#include "tests/gpu/figures/sheet.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

std::string Raw(double value) { return absl::StrFormat("%.9g", value); }

std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string MarkdownRow(const std::vector<std::string>& cells) {
  std::vector<std::string> escaped;
  escaped.reserve(cells.size());
  for (const std::string& cell : cells) {
    escaped.push_back(absl::StrReplaceAll(cell, {{"|", "\\|"}}));
  }
  return absl::StrCat("| ", absl::StrJoin(escaped, " | "), " |\n");
}

// One text for each column, the given part of the cell; empty for missing cells.
std::vector<std::string> Parts(const std::vector<Cell>& row, size_t columns,
                               std::string Cell::*part) {
  std::vector<std::string> parts(columns);
  for (size_t i = 0; i < row.size(); ++i) parts[i] = row[i].*part;
  return parts;
}

}  // namespace

Cell Words(const std::string& words) { return {words, words}; }
Cell Count(int64_t count) { return Words(absl::StrCat(count)); }
Cell Size(int64_t bytes) { return {FormatBytes(bytes), absl::StrCat(bytes)}; }
Cell Duration(double seconds) { return {FormatSeconds(seconds), Raw(seconds)}; }
Cell Bandwidth(double bytes_per_second) {
  return {FormatBytesPerSecond(bytes_per_second), Raw(bytes_per_second)};
}
Cell SamplesPerSecond(double rate) { return {absl::StrFormat("%.2f", rate), Raw(rate)}; }
Cell Share(double share) { return {absl::StrFormat("%.1f %%", 100 * share), Raw(share)}; }
Cell Change(double change) { return {absl::StrFormat("%+.1f %%", 100 * change), Raw(change)}; }
Cell Difference(double value) { return {absl::StrFormat("%.1e", value), Raw(value)}; }

std::string Sheet::ToMarkdown() const {
  std::string text = MarkdownRow(columns_);
  absl::StrAppend(&text, "|", absl::StrJoin(std::vector<std::string>(columns_.size(), "---"), "|"),
                  "|\n");
  for (const auto& row : rows_) {
    absl::StrAppend(&text, MarkdownRow(Parts(row, columns_.size(), &Cell::text)));
  }
  return text;
}

std::string Sheet::ToCsv() const {
  const auto line = [](std::string* out, const std::string& cell) {
    absl::StrAppend(out, Quoted(cell));
  };
  std::string text = absl::StrCat(absl::StrJoin(columns_, ",", line), "\n");
  for (const auto& row : rows_) {
    absl::StrAppend(&text, absl::StrJoin(Parts(row, columns_.size(), &Cell::raw), ",", line), "\n");
  }
  return text;
}

}  // namespace stowage
