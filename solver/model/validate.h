// Checks of all that comes from outside: every violated field at once, each with its path, what is
// wrong with it and what would be right. Called once, at the edge (service, command line); what
// stands behind may assume that the lists are empty. Pure, thread-safe. Limits: solver/README.md.
#ifndef STOWAGE_SOLVER_MODEL_VALIDATE_H_
#define STOWAGE_SOLVER_MODEL_VALIDATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

struct FieldViolation {
  std::string field;    // "chain.stages[17].saved_bytes", indices from 0 as in JSON
  std::string problem;  // "is 4, less than output_bytes 8, which it must include"

  bool operator==(const FieldViolation&) const = default;
};

// O(stages).
std::vector<FieldViolation> Violations(const Chain& chain);
std::vector<FieldViolation> Violations(const Platform& platform);
// The number of operations only: whether they make sense is the simulator's to say.
std::vector<FieldViolation> Violations(const Schedule& schedule);
// For those who know the number before they have the rest.
FieldViolation TooManyStages(int64_t stages);
FieldViolation TooManyOperations(int64_t operations);

// OK when `violations` is empty, else INVALID_ARGUMENT with all of them, "field: problem" joined by
// "; ". What would not fit in `most_characters` is counted instead.
absl::Status ViolationsStatus(const std::vector<FieldViolation>& violations,
                              size_t most_characters = SIZE_MAX);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_VALIDATE_H_
