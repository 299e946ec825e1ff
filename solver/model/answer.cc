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

absl::string_view SourceName(Origin::Source source) {
  switch (source) {
    case Origin::Source::kSolved:
      return "SOLVED";
    case Origin::Source::kMemoryCache:
      return "MEMORY_CACHE";
    case Origin::Source::kDiskCache:
      return "DISK_CACHE";
    case Origin::Source::kSharedCache:
      return "SHARED_CACHE";
    case Origin::Source::kCoalesced:
      return "COALESCED";
  }
  return "";
}

}  // namespace stowage
