#include "solver/base/violations.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace stowage {

std::vector<FieldViolation> Within(absl::string_view path, std::vector<FieldViolation> violations) {
  for (FieldViolation& violation : violations) {
    violation.field = absl::StrCat(path, ".", violation.field);
  }
  return violations;
}

void Append(std::vector<FieldViolation> more, std::vector<FieldViolation>* violations) {
  for (FieldViolation& violation : more) violations->push_back(std::move(violation));
}

absl::Status ViolationsStatus(const std::vector<FieldViolation>& violations,
                              size_t max_characters) {
  if (violations.empty()) return absl::OkStatus();
  std::string message;
  for (size_t i = 0; i < violations.size(); ++i) {
    const std::string one = absl::StrCat(violations[i].field, ": ", violations[i].problem);
    if (i > 0 && message.size() + one.size() > max_characters) {
      absl::StrAppend(&message, "; and ", violations.size() - i, " more violated fields");
      break;
    }
    absl::StrAppend(&message, i > 0 ? "; " : "", one);
  }
  return absl::InvalidArgumentError(message);
}

}  // namespace stowage
