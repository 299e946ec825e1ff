// A table of results, for people as Markdown and for programs as CSV.
#ifndef STOWAGE_TESTS_GPU_FIGURES_SHEET_H_
#define STOWAGE_TESTS_GPU_FIGURES_SHEET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stowage {

struct Cell {
  std::string text;  // "9.76 GiB"
  std::string raw;   // "10479583232"
};

Cell Words(const std::string& words);
Cell Count(int64_t count);
Cell Size(int64_t bytes);
Cell Duration(double seconds);
Cell Bandwidth(double bytes_per_second);
Cell SamplesPerSecond(double rate);
Cell Share(double share);       // "15.6 %"
Cell Change(double change);     // "+15.6 %", "-3.0 %"
Cell Difference(double value);  // "1.2e-07"

// An empty cell for nullopt.
template <typename T>
Cell Maybe(Cell (*cell)(T), const std::optional<T>& value) {
  return value.has_value() ? cell(*value) : Cell();
}

class Sheet {
 public:
  explicit Sheet(std::vector<std::string> columns) : columns_(std::move(columns)) {}

  // Missing cells are empty. Requires: no more cells than columns.
  void Add(std::vector<Cell> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }

  std::string ToMarkdown() const;  // a pipe in a cell is escaped
  // Numbers in bytes, seconds, shares and per second, without units. Cells are quoted if necessary.
  std::string ToCsv() const;

 private:
  std::vector<std::string> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_FIGURES_SHEET_H_
