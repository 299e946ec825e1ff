#include "solver/solve/request_violations.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "solver/algorithms/solver.h"
#include "solver/base/quote.h"
#include "solver/solve/catalog.h"

namespace stowage {
namespace {

// Comparisons of doubles are written so that NaN is a violation.
std::vector<FieldViolation> Violations(const SolveOptions& options, int stages) {
  std::vector<FieldViolation> violations;
  if (options.memory_slots < 0 || options.memory_slots > kMaxMemorySlots) {
    violations.push_back(
        {"options.memory_slots", absl::StrCat("is ", options.memory_slots,
                                              "; it must be from 1 to 2^40, or 0 for the solver's "
                                              "default")});
  }
  if (options.segments < 0 || options.segments > stages) {
    violations.push_back(
        {"options.segments",
         absl::StrCat("is ", options.segments, "; it must be from 1 to the chain's ", stages,
                      " stages, or 0 for the best of all")});
  }
  const double precision = options.time_precision;
  if (precision != 0 && !(precision >= kMinTimePrecision && precision <= kMaxTimePrecision)) {
    violations.push_back(
        {"options.time_precision", absl::StrCat("is ", precision, "; it must be 0 (exact) or from ",
                                                kMinTimePrecision, " to ", kMaxTimePrecision)});
  }
  if (!(options.time_budget_seconds >= 0 && options.time_budget_seconds <= kMaxTimeBudgetSeconds)) {
    violations.push_back({"options.time_budget_seconds",
                          absl::StrCat("is ", options.time_budget_seconds,
                                       "; it must be from 0 (none) to ", kMaxTimeBudgetSeconds)});
  }
  return violations;
}

std::vector<FieldViolation> Violations(const JobDevice& device) {
  std::vector<FieldViolation> violations = Violations(device.platform);
  if (!(device.price >= 0 && std::isfinite(device.price))) {
    violations.push_back(
        {"price", absl::StrCat("is ", device.price, "; it must be a number from 0 (unknown)")});
  }
  return violations;
}

}  // namespace

std::vector<FieldViolation> SolverViolations(const std::string& solver) {
  if (FindSolver(solver) != nullptr) return {};
  const auto append = [](std::string* out, const SolverInfo& info) {
    absl::StrAppend(out, info.description.name);
  };
  return {{"solver", absl::StrCat(Quoted(solver), " is not known; choose one of ",
                                  absl::StrJoin(AllSolvers(), ", ", append))}};
}

// Collects the violations of every part, so that a caller can correct all of them at once.
std::vector<FieldViolation> RequestViolations(const SolveRequest& request) {
  std::vector<FieldViolation> violations = Violations(request.chain);
  Append(Violations(request.platform), &violations);
  Append(Violations(request.options, request.chain.length()), &violations);
  Append(SolverViolations(request.solver), &violations);
  return violations;
}

std::vector<FieldViolation> RequestViolations(const FrontierRequest& request) {
  std::vector<FieldViolation> violations = RequestViolations(
      SolveRequest{request.chain, request.platform, request.solver, request.options});
  const auto most = static_cast<size_t>(kMaxFrontierPoints);
  const bool listed = !request.budgets.empty();
  if (listed && request.points != 0) {
    violations.push_back({"points", "is set together with memory_bytes; give one of the two"});
  } else if (request.points != 0 && (request.points < 2 || request.points > kMaxFrontierPoints)) {
    violations.push_back(
        {"points", absl::StrCat("is ", request.points, "; must be from 2 to ", most)});
  }
  // Too many budgets are one violation; their values are not checked then.
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

std::vector<FieldViolation> TooMany(size_t components, size_t devices) {
  std::vector<FieldViolation> violations;
  if (components > kMaxComponents) {
    violations.push_back(
        {"job.components", absl::StrCat("has ", components, " entries; at most ", kMaxComponents,
                                        " are allowed, so add up what belongs together")});
  }
  if (devices == 0 || devices > kMaxDevices) {
    violations.push_back(
        {"devices", absl::StrCat("has ", devices, " entries; must be 1 to ", kMaxDevices)});
  }
  return violations;
}

// Names are for people: long ones are a mistake, or cost all who read the request.
void CheckName(const std::string& path, const std::string& name,
               std::vector<FieldViolation>* violations) {
  if (name.size() <= kMaxNameBytes) return;
  violations->push_back({path, absl::StrCat("has ", name.size(), " bytes; at most ", kMaxNameBytes,
                                            " are allowed, so shorten it")});
}

std::vector<FieldViolation> LongNames(const AdmitRequest& request) {
  std::vector<FieldViolation> violations;
  const Chain& chain = request.job.chain;
  CheckName("job.chain.name", chain.name, &violations);
  for (size_t i = 0; i < std::min(chain.stages.size(), size_t{kMaxStages}); ++i) {
    CheckName(absl::StrCat("job.chain.stages[", i, "].name"), chain.stages[i].name, &violations);
  }
  const std::vector<Component>& components = request.job.components;
  for (size_t i = 0; i < std::min(components.size(), kMaxComponents); ++i) {
    CheckName(absl::StrCat("job.components[", i, "].name"), components[i].name, &violations);
  }
  for (size_t i = 0; i < std::min(request.devices.size(), kMaxDevices); ++i) {
    CheckName(absl::StrCat("devices[", i, "].platform.name"), request.devices[i].platform.name,
              &violations);
  }
  return violations;
}

std::vector<FieldViolation> RequestViolations(const AdmitRequest& request) {
  std::vector<FieldViolation> violations = Violations(request.job);
  Append(Violations(request.options, request.job.chain.length()), &violations);
  Append(SolverViolations(request.solver), &violations);
  Append(TooMany(request.job.components.size(), request.devices.size()), &violations);
  Append(LongNames(request), &violations);
  for (size_t i = 0; i < std::min(request.devices.size(), kMaxDevices); ++i) {
    const std::string path = absl::StrCat("devices[", i, "]");
    Append(Within(path, Violations(request.devices[i])), &violations);
  }
  return violations;
}

}  // namespace stowage
