// Aligned columns of text for a terminal.
#ifndef STOWAGE_CLIENT_TEXT_TABLE_H_
#define STOWAGE_CLIENT_TEXT_TABLE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stowage {

// Columns as wide as their widest cell, two spaces apart; the last one may run on. Not thread-safe.
class Table {
 public:
  enum class Align { kLeft, kRight };

  explicit Table(std::vector<Align> columns) : columns_(std::move(columns)) {}

  // Missing cells are empty. Requires: no more cells than columns.
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Every row on a line, `indent` spaces before it.
  std::string ToString(int indent) const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Characters that a terminal shows of UTF-8 text.
size_t DisplayWidth(absl::string_view text);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TEXT_TABLE_H_
