// Validation of external input. Each function returns every violated field at once, with its path,
// the problem and the remedy. The service and the command line call it once; all other code
// requires that the lists are empty. Pure, thread-safe. Limits: solver/README.md, "Limits".
#ifndef STOWAGE_SOLVER_MODEL_VALIDATE_H_
#define STOWAGE_SOLVER_MODEL_VALIDATE_H_

#include <cstdint>
#include <vector>

#include "solver/base/violations.h"
#include "solver/model/chain.h"
#include "solver/model/job.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

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

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_VALIDATE_H_
