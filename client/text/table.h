// Aligned columns of text for a terminal.
#ifndef STOWAGE_CLIENT_TEXT_TABLE_H_
#define STOWAGE_CLIENT_TEXT_TABLE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stowage {

// Columns are as wide as their widest cell and two spaces apart. Thread-compatible.
class Table {
 public:
  enum class Align { kLeft, kRight };

  explicit Table(std::vector<Align> columns) : columns_(std::move(columns)) {}

  // Missing cells are empty. Requires: no more cells than columns.
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // A line per row, indented by `indent` spaces, without trailing spaces.
  std::string ToString(int indent) const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// The number of code points of UTF-8 text: the columns that a terminal needs.
size_t DisplayWidth(absl::string_view text);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TEXT_TABLE_H_
