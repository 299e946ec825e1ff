// Exports: the best plan that a framework can express for a chain and a budget, as the framework's
// own settings, compared with what no framework limits and with what its users set by default.
#ifndef STOWAGE_SOLVER_EXPORT_EXPORT_H_
#define STOWAGE_SOLVER_EXPORT_EXPORT_H_

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/flat/flat_plan.h"
#include "solver/export/layers.h"
#include "solver/export/targets.h"
#include "solver/model/answer.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"
#include "solver/model/request.h"
#include "solver/model/schedule.h"

namespace stowage {

// One of the schedules that an export compares, simulated on the request's chain.
struct ComparedSchedule {
  std::string name;  // "full schedule (rotor)"
  Schedule schedule = {};
  Prediction prediction = {};
  bool fits = false;  // the limits of the platform
};

struct ExportRequest {
  const Target* target = nullptr;  // not null
  Chain chain;
  Platform platform;
  LayerStages stages = {};  // that are layers, by ParseStages(); the others are saved
};

// The best plan of a target's class.
struct TargetPlan {
  // Of the layers; unset: none fits, or none was found before time ran out.
  std::optional<std::vector<Piece>> pieces = {};
  std::string name;  // "flat", "uniform, 4 layers"
  std::optional<int64_t> minimum_memory_bytes =
      {};                            // with which there is one; unset: none is known
  bool time_ran_out = false;         // a better one may exist
  std::vector<bool> offloaded = {};  // by layer, as in ExportedPlan
  Schedule schedule = {};            // set where something is offloaded
};

// The solve whose answer is the plan; nullopt: FindSetting() finds it.
std::optional<SolveRequest> PlanSolve(const ExportRequest& request, const SolveOptions& options);
// The plan of that answer. O(operations).
absl::StatusOr<TargetPlan> PlanFrom(const ExportRequest& request, const Answer& answer);
// By trying all settings, each simulated on the chain itself; of equally fast ones the one with the
// lowest peak. Once `stop` is set, the best one so far, if there is one, with time_ran_out. Errors:
// none but of simulations. Requires: PlanSolve() is nullopt.
absl::StatusOr<TargetPlan> FindSetting(const ExportRequest& request,
                                       const std::stop_token& stop = {});
// How many it simulates, at most.
int64_t SettingsToTry(const ExportRequest& request);

struct Export {
  std::optional<ComparedSchedule> full = {};  // of the solver that was asked; unset: nothing fits
  // Unset: the target expresses nothing that fits, or no such plan was found before time ran out.
  std::optional<ComparedSchedule> exported = {};
  // The target's default, which may not fit; unset: it would run a stage twice that may run once.
  std::optional<ComparedSchedule> usual = {};
  std::optional<int> forbidden_stage = {};  // that one; set exactly where `usual` is not
  // With which the target expresses a plan; unset: none is known.
  std::optional<int64_t> minimum_memory_bytes = {};
  bool time_ran_out = false;  // before it was known that no plan of the target is better
  // "full schedule (rotor)   211.0 ms  +27.5 %  peak 973.97 MiB", a line for each schedule; the
  // percentages are over storing everything. Of a default that would run stage 4 twice, which may
  // run once: "usual: every layer recomputed  not possible: stage 4 may run once".
  std::vector<std::string> comparison = {};
  std::string text;  // settings or code, with the comparison as comments; empty without a plan
};

// As Export::full. Requires: the answer has a schedule.
ComparedSchedule FullSchedule(const Answer& answer);

// The plan as the target's own settings, beside `full`, an answer for the same chain and platform.
// O(operations). Errors: those of Target::write(). Requires: Violations(chain) and
// Violations(platform) are empty. Pure, thread-safe, as are the above.
absl::StatusOr<Export> ExportOf(const ExportRequest& request, const TargetPlan& plan,
                                const Answer& full);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_EXPORT_EXPORT_H_
