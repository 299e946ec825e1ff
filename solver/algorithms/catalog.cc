#include "solver/algorithms/catalog.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "solver/algorithms/auto.h"
#include "solver/algorithms/periodic.h"
#include "solver/algorithms/revolve.h"
#include "solver/algorithms/rotor.h"
#include "solver/algorithms/store_all.h"
#include "solver/base/quote.h"

namespace stowage {
namespace {

constexpr const char* kAutoOptions[] = {"memory_slots", "segments", "time_precision"};
constexpr const char* kPeriodicOptions[] = {"segments", "time_precision"};
constexpr const char* kSlotOptions[] = {"memory_slots", "time_precision"};

constexpr SolverInfo kSolvers[] = {
    {{.name = "auto",
      .summary = "the best schedule of all solvers below",
      .guarantee = "never slower than any of them, with the promise of the one that wins",
      .complexity = "the sum of theirs",
      .version = 2,
      .recomputes = true,
      .offloads = false,
      .options = kAutoOptions},
     MakeAuto},
    {{.name = "store_all",
      .summary = "keeps everything: no recomputation, the most memory",
      .guarantee = "no schedule is faster, where it fits",
      .complexity = "O(L) time and memory",
      .version = 1,
      .recomputes = false,
      .offloads = false,
      .options = {}},
     MakeStoreAll},
    {{.name = "periodic",
      .summary =
          "segments of equal length, of which only the input is kept (checkpoint_sequential)",
      .guarantee = "the fastest of all segment counts that fit",
      .complexity = "O(L^2) time, O(L) memory; O(L) time for one count",
      .version = 1,
      .recomputes = true,
      .offloads = false,
      .options = kPeriodicOptions},
     MakePeriodic},
    {{.name = "rotor",
      .summary = "optimal rematerialization of a heterogeneous chain (RR-9302)",
      .guarantee =
          "the fastest nested persistent schedule without offloading, up to the rounding of "
          "memory to slots; exact for short chains",
      .complexity = "O(L^3 S) time, O(L^2 S) memory",
      .version = 2,
      .recomputes = true,
      .offloads = false,
      .options = kSlotOptions},
     MakeRotor},
    {{.name = "revolve",
      .summary = "keeps outputs only, as automatic differentiation does (RR-9302, section 5.3)",
      .guarantee =
          "the fastest nested persistent schedule that saves a stage only right before its "
          "backward, up to the rounding of memory to slots; exact for short chains",
      .complexity = "O(L^3 S) time, O(L^2 S) memory",
      .version = 1,
      .recomputes = true,
      .offloads = false,
      .options = kSlotOptions},
     MakeRevolve,
     "rotor"},
};

}  // namespace

std::span<const SolverInfo> AllSolvers() { return kSolvers; }

const SolverInfo* FindSolver(absl::string_view name) {
  if (name.empty()) name = "auto";
  for (const SolverInfo& info : kSolvers) {
    if (name == info.description.name) return &info;
  }
  return nullptr;
}

std::vector<FieldViolation> RequestViolations(const SolveRequest& request) {
  std::vector<FieldViolation> violations = Violations(request);
  if (FindSolver(request.solver) == nullptr) {
    const auto name = [](std::string* out, const SolverInfo& info) {
      absl::StrAppend(out, info.description.name);
    };
    violations.push_back(
        {"solver", absl::StrCat(Quoted(request.solver), " is not known; choose one of ",
                                absl::StrJoin(AllSolvers(), ", ", name))});
  }
  return violations;
}

std::vector<FieldViolation> RequestViolations(const FrontierRequest& request) {
  std::vector<FieldViolation> violations = RequestViolations(
      SolveRequest{request.chain, request.platform, request.solver, request.options});
  const auto most = static_cast<size_t>(kMaxFrontierPoints);
  const bool listed = !request.budgets.empty();
  if (listed && request.points != 0) {
    violations.push_back({"points", "is set, and so is memory_bytes; give one of the two"});
  } else if (request.points != 0 && (request.points < 2 || request.points > kMaxFrontierPoints)) {
    violations.push_back(
        {"points", absl::StrCat("is ", request.points, "; must be from 2 to ", most)});
  }
  if (request.budgets.size() > most) {
    violations.push_back({"memory_bytes", absl::StrCat("lists ", request.budgets.size(),
                                                       " budgets; at most ", most, " at once")});
    return violations;
  }
  for (size_t i = 0; i < request.budgets.size(); ++i) {
    if (request.budgets[i] >= 0 && request.budgets[i] < kMaxTotalBytes) continue;
    violations.push_back(
        {absl::StrCat("memory_bytes[", i, "]"),
         absl::StrCat("is ", request.budgets[i], "; must be from 0 to below 2^62")});
  }
  return violations;
}

}  // namespace stowage
