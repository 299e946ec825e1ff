#include "client/cli/view/measured_step.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "proto/convert/schedule_message.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"
#include "solver/model/schedule.h"
#include "solver/model/validate.h"

namespace stowage {
namespace {

// Of one operation, seconds from the start of the step.
struct Ran {
  std::string name;  // of the operation, as in the trace
  double start_seconds = 0;
  double end_seconds = 0;
  std::optional<int64_t> memory_bytes;  // while it ran
};
using Step = std::map<size_t, Ran>;  // by the operation's index

// The number of the process with that name.
std::optional<int64_t> ProcessCalled(const std::string& name, const nlohmann::json& events) {
  for (const nlohmann::json& event : events) {
    if (event.value("ph", "") != "M" || event.value("name", "") != "process_name") continue;
    if (event.at("args").value("name", "") == name) return event.at("pid").get<int64_t>();
  }
  return std::nullopt;
}

// Intervals have the index of their operation; a count of the memory follows that of its operation.
Step StepOf(int64_t process, const nlohmann::json& events) {
  Step step;
  Ran* last = nullptr;
  for (const nlohmann::json& event : events) {
    if (event.at("pid").get<int64_t>() != process) continue;
    const std::string kind = event.value("ph", "");
    if (kind == "X") {
      const double start = event.at("ts").get<double>() * 1e-6;
      const double end = start + event.at("dur").get<double>() * 1e-6;
      last = &step[event.at("args").at("operation").get<size_t>()];
      *last = {event.at("name").get<std::string>(), start, end, std::nullopt};
    } else if (kind == "C" && last != nullptr) {
      last->memory_bytes = event.at("args").at("bytes").get<int64_t>();
    }
  }
  return step;
}

absl::StatusOr<Step> ReadTrace(absl::string_view text) {
  try {
    const auto events = nlohmann::json::parse(text).at("traceEvents");
    const std::optional<int64_t> process = ProcessCalled("measured", events);
    if (process.has_value()) return StepOf(*process, events);
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("is no trace of a step: ", Shortened(Printable(error.what()), 200)));
  }
  return absl::InvalidArgumentError("has no process \"measured\"");
}

absl::Status CheckSameOperations(const Step& step, const std::vector<Operation>& operations) {
  for (size_t i = 0; i < operations.size(); ++i) {
    const auto ran = step.find(i);
    const std::string name = OperationName(operations[i]);
    if (ran == step.end()) {
      if (operations[i].kind == OperationKind::kRelease)
        continue;  // takes no time: may be left out
      return absl::InvalidArgumentError(
          absl::StrCat("operations[", i, "] ", name, ": is not in the trace"));
    }
    if (ran->second.name != name) {
      return absl::InvalidArgumentError(absl::StrCat("operations[", i, "] is ",
                                                     Quoted(ran->second.name), " in the trace and ",
                                                     name, " in the schedule"));
    }
  }
  if (!step.empty() && step.rbegin()->first >= operations.size()) {
    return absl::InvalidArgumentError(absl::StrCat("has operations[", step.rbegin()->first,
                                                   "], and the schedule has ", operations.size(),
                                                   " operations"));
  }
  return absl::OkStatus();
}

bool IsComputation(OperationKind kind) {
  return IsForward(kind) || kind == OperationKind::kBackward;
}

// The times and the memory of each operation. Copies have no memory of their own: that of the
// computation listed before them.
void FillTimeline(const Step& step, const std::vector<Operation>& operations,
                  v1::ViewedSchedule* viewed) {
  double computed_until = 0;
  int64_t memory_bytes = 0;
  for (size_t i = 0; i < operations.size(); ++i) {
    const auto found = step.find(i);
    const Ran ran =
        found != step.end() ? found->second : Ran{"", computed_until, computed_until, {}};
    memory_bytes = ran.memory_bytes.value_or(memory_bytes);
    if (IsComputation(operations[i].kind)) computed_until = ran.end_seconds;
    const int at = static_cast<int>(i);
    v1::TimelineEntry& entry = *viewed->mutable_simulation()->mutable_timeline(at);
    entry.set_start_seconds(ran.start_seconds);
    entry.set_end_seconds(ran.end_seconds);
    entry.set_memory_bytes(memory_bytes);
    entry.set_host_bytes(0);
    viewed->mutable_details(at)->Clear();
    viewed->mutable_details(at)->set_measured_bytes(memory_bytes);
  }
}

// The sums of the timeline, and its peak where memory was measured.
void FillSums(const std::vector<Operation>& operations, v1::SimulateResponse* simulation) {
  v1::Prediction& sums = *simulation->mutable_prediction();
  v1::Peak peak;
  std::set<int> seen;
  for (size_t i = 0; i < operations.size(); ++i) {
    const v1::TimelineEntry& entry = simulation->timeline(static_cast<int>(i));
    sums.set_makespan_seconds(std::max(sums.makespan_seconds(), entry.end_seconds()));
    if (entry.memory_bytes() > peak.memory_bytes()) {
      peak.set_operation(static_cast<int64_t>(i));
      peak.set_memory_bytes(entry.memory_bytes());
    }
    if (!IsComputation(operations[i].kind)) continue;
    const double seconds = entry.end_seconds() - entry.start_seconds();
    sums.set_compute_seconds(sums.compute_seconds() + seconds);
    if (IsForward(operations[i].kind) && !seen.insert(operations[i].stage).second) {
      sums.set_recompute_seconds(sums.recompute_seconds() + seconds);
    }
  }
  sums.set_idle_seconds(std::max(sums.makespan_seconds() - sums.compute_seconds(), 0.0));
  sums.set_peak_memory_bytes(peak.memory_bytes());
  if (peak.memory_bytes() > 0) *simulation->mutable_explanation()->add_peaks() = peak;
}

}  // namespace

bool IsTrace(absl::string_view json) {
  const size_t events = json.find("\"traceEvents\"");
  return events < json.find("\"operations\"");
}

absl::StatusOr<v1::ViewedSchedule> MeasuredStep(absl::string_view json,
                                                const v1::ViewedSchedule& predicted,
                                                double store_all_seconds) {
  ASSIGN_OR_RETURN(const Step step, ReadTrace(json));
  std::vector<FieldViolation> violations;
  const std::vector<Operation> operations =
      FromMessage(predicted.answer().schedule(), &violations).operations;
  RETURN_IF_ERROR(CheckSameOperations(step, operations));
  v1::ViewedSchedule viewed;
  *viewed.mutable_answer()->mutable_schedule() = predicted.answer().schedule();
  *viewed.mutable_answer()->mutable_platform() = predicted.answer().platform();
  *viewed.mutable_simulation() = predicted.simulation();
  *viewed.mutable_details() = predicted.details();
  viewed.set_measured(true);
  v1::SimulateResponse& simulation = *viewed.mutable_simulation();
  const double bound = simulation.prediction().lower_bound_seconds();
  simulation.clear_prediction();
  simulation.mutable_explanation()->clear_peaks();
  simulation.mutable_explanation()->clear_idles();
  FillTimeline(step, operations, &viewed);
  FillSums(operations, &simulation);
  v1::Prediction& sums = *simulation.mutable_prediction();
  sums.set_lower_bound_seconds(bound);
  if (store_all_seconds > 0) sums.set_overhead(sums.makespan_seconds() / store_all_seconds - 1);
  simulation.clear_first_over_limit();
  simulation.set_feasible(sums.peak_memory_bytes() <= viewed.answer().platform().memory_bytes());
  if (bound > 0) sums.set_gap(sums.makespan_seconds() / bound - 1);
  return viewed;
}

}  // namespace stowage
