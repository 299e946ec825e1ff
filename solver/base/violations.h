// What is wrong with external input: the field, the problem and the remedy. Pure, thread-safe.
#ifndef STOWAGE_SOLVER_BASE_VIOLATIONS_H_
#define STOWAGE_SOLVER_BASE_VIOLATIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stowage {

struct FieldViolation {
  std::string field;    // "chain.stages[17].saved_bytes", indices from 0 as in JSON
  std::string problem;  // "is 4, less than output_bytes 8, which it must include"

  bool operator==(const FieldViolation&) const = default;
};

// The violations, as of a part of a message at `path`: "job.chain.stages[3].saved_bytes".
std::vector<FieldViolation> Within(absl::string_view path, std::vector<FieldViolation> violations);

// Appends `more` to `violations`.
void Append(std::vector<FieldViolation> more, std::vector<FieldViolation>* violations);

// OK when `violations` is empty. Otherwise INVALID_ARGUMENT with "field: problem" of each, joined
// by "; ". Violations beyond `max_characters` are counted, not listed; the first is always listed.
absl::Status ViolationsStatus(const std::vector<FieldViolation>& violations,
                              size_t max_characters = SIZE_MAX);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_VIOLATIONS_H_
