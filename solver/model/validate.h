// Validation of external input. Each function returns every violated field at once, with its path,
// the problem and the remedy. The service and the command line call it once; all other code
// requires that the lists are empty. Pure, thread-safe. Limits: solver/README.md, "Limits".
#ifndef STOWAGE_SOLVER_MODEL_VALIDATE_H_
#define STOWAGE_SOLVER_MODEL_VALIDATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "solver/model/chain.h"
#include "solver/model/job.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

struct FieldViolation {
  std::string field;    // "chain.stages[17].saved_bytes", indices from 0 as in JSON
  std::string problem;  // "is 4, less than output_bytes 8, which it must include"

  bool operator==(const FieldViolation&) const = default;
};

// Sizes, times, names, fusion groups and the limits on stages and sums. O(stages).
std::vector<FieldViolation> Violations(const Chain& chain);
std::vector<FieldViolation> Violations(const Platform& platform);
// The chain's, and the components' sizes and sum. O(stages).
std::vector<FieldViolation> Violations(const TrainingJob& job);
// Checks the number of operations only. The simulator checks whether they are valid.
std::vector<FieldViolation> Violations(const Schedule& schedule);
// The same violations for callers that read the count before the data, such as parsers.
FieldViolation TooManyStages(int64_t stages);
FieldViolation TooManyOperations(int64_t operations);

// The violations, as of a part of a message at `path`: "job.chain.stages[3].saved_bytes".
std::vector<FieldViolation> Within(absl::string_view path, std::vector<FieldViolation> violations);

// Appends `more` to `violations`.
void Append(std::vector<FieldViolation> more, std::vector<FieldViolation>* violations);

// OK when `violations` is empty. Otherwise INVALID_ARGUMENT with "field: problem" of each, joined
// by "; ". Violations beyond `max_characters` are counted, not listed; the first is always listed.
absl::Status ViolationsStatus(const std::vector<FieldViolation>& violations,
                              size_t max_characters = SIZE_MAX);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_VALIDATE_H_
