#include "solver/model/answer.h"

namespace stowage {

absl::string_view OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOptimal:
      return "OPTIMAL";
    case Outcome::kFeasible:
      return "FEASIBLE";
    case Outcome::kInfeasible:
      return "INFEASIBLE";
  }
  return "";
}

}  // namespace stowage
