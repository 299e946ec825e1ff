#include "solver/algorithms/modes/mixed_solution.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "solver/algorithms/modes/convex_splits.h"
#include "solver/algorithms/modes/mixed_minimum.h"
#include "solver/algorithms/modes/mixed_splits.h"
#include "solver/algorithms/modes/mode_tables.h"
#include "solver/algorithms/modes/split_certificate.h"
#include "solver/algorithms/rematerialization/rotor.h"
#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/algorithms/slot_grid.h"
#include "solver/base/checked_math.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

int64_t SlotsOf(const Instance& instance) {
  const int64_t requested = instance.options().memory_slots;
  return requested > 0 ? requested : kDefaultMemorySlots;
}

ModeTables::Options TableOptions(const Instance& instance) {
  // More memory than the fastest schedule needs makes no difference.
  const int64_t bytes =
      std::min(instance.platform().memory_bytes, FastestStored(instance).peak_bytes);
  const int64_t granules = bytes / instance.granule_bytes();
  const int64_t slots = SlotsOf(instance);
  // One slot a granule is exact: what fits in slots fits in bytes.
  if (slots >= granules) {
    const int64_t whole = granules * instance.granule_bytes();
    return {{whole, granules, SlotGrid::Rounding::kUp}, granules};
  }
  const SlotGrid grid = BestFittingGrid(instance.chain(), bytes, slots);
  return {grid, LevelsBeyond(instance.chain(), grid)};
}

// An upper bound on TableOptions().levels, for MixedSolutionBytes().
int64_t MostLevels(const Instance& instance) {
  const int64_t slots = SlotsOf(instance);
  return std::min(slots + slots * 9 / 10 + 2,
                  instance.platform().memory_bytes / instance.granule_bytes() + slots);
}

// What is built once for an instance. The tables, and exact splits, only where a budget between the
// least memory and that of the fastest schedule can be queried.
struct MixedPrograms {
  SplitProgram program;
  Instance instance;
  StoredSchedule fastest;
  std::optional<MixedMinimum> minimum;
  std::optional<ModeTables> tables;
  std::optional<ExactSplits> exact;  // borrows the tables
};

// Splits as a schedule that has been simulated.
struct SimulatedSplits {
  Schedule schedule;
  int64_t peak_bytes = 0;
  double makespan_seconds = 0;
  bool certified = false;    // no splits at its level are faster
  double bound_seconds = 0;  // no splits at its level take less; 0: no bound
};

// nullopt: there is no schedule, or the simulator rejects it.
std::optional<SimulatedSplits> SimulateSplits(const Instance& instance,
                                              std::optional<Schedule> schedule) {
  if (!schedule.has_value()) return std::nullopt;
  const absl::StatusOr<Simulation> simulation =
      Simulate(instance.chain(), instance.platform(), *schedule);
  if (!simulation.ok()) return std::nullopt;
  return SimulatedSplits{*std::move(schedule), simulation->prediction.peak_memory_bytes,
                         simulation->prediction.makespan_seconds};
}

Candidate ToCandidate(SplitProgram program, const SimulatedSplits& splits) {
  Candidate candidate{splits.schedule, NameOf(program), Guarantee::kHeuristic, {}};
  if (splits.certified) {
    // Optimal in the program's class, up to slots and to the tables' single precision.
    candidate.guarantee = Guarantee::kUpToRounding;
  } else if (splits.bound_seconds > 0) {
    candidate.notes.push_back(absl::StrFormat(
        "the split by fixed shares is not proved to be the best one, but at most %.2f %% slower",
        100 * std::max(0.0, splits.makespan_seconds / splits.bound_seconds - 1)));
  } else {
    candidate.notes.emplace_back("the split by fixed shares is not proved to be the best one");
  }
  return candidate;
}

// Passes splits that fit the instance's own budget to context.improved.
void ReportImproved(const MixedPrograms& programs, const std::optional<SimulatedSplits>& splits,
                    int64_t memory_bytes, const SolveContext& context) {
  if (!context.improved || !splits.has_value() || splits->peak_bytes > memory_bytes) return;
  if (memory_bytes != programs.instance.platform().memory_bytes) return;
  context.improved(ToCandidate(programs.program, *splits));
}

// Steps 2 and 3 of the header, for one budget in bytes.
class LevelSearch {
 public:
  LevelSearch(const MixedPrograms& programs, int64_t memory_bytes, const SolveContext& context)
      : programs_(programs),
        tables_(*programs.tables),
        memory_bytes_(memory_bytes),
        context_(context),
        exact_(programs.exact.has_value() ? &*programs.exact : nullptr) {}

  absl::StatusOr<std::optional<Candidate>> Run();

 private:
  absl::StatusOr<std::optional<SimulatedSplits>> SolveLevel(int64_t level);
  absl::StatusOr<std::optional<SimulatedSplits>> SolveExactly(int64_t share) const;
  absl::StatusOr<std::optional<SimulatedSplits>> SolveByConvexity(int64_t share);
  absl::Status UseExactSplitsIfQuick();
  absl::StatusOr<std::optional<SimulatedSplits>> FitInBytes();
  absl::StatusOr<std::optional<SimulatedSplits>> FitModesByRotor() const;
  bool FullRecurrenceIsQuick() const;
  int64_t FirstLevel() const;
  bool Fits(const SimulatedSplits& splits) const { return splits.peak_bytes <= memory_bytes_; }
  static void KeepFaster(std::optional<SimulatedSplits> splits,
                         std::optional<SimulatedSplits>* best) {
    if (best->has_value() && (*best)->makespan_seconds <= splits->makespan_seconds) return;
    *best = std::move(splits);
  }

  const MixedPrograms& programs_;
  const ModeTables& tables_;
  const int64_t memory_bytes_;
  const SolveContext& context_;
  const ExactSplits* exact_;         // null: levels are solved by convexity
  std::optional<ExactSplits> full_;  // what exact_ points to, once the search has built them
  std::optional<SimulatedSplits> unproved_;   // the fastest that fit, from any level, not proved
  std::optional<SimulatedSplits> too_large_;  // of the last level
  int proofs_left_ = 3;  // for long chains each proof takes as long as the tables
  double bound_ = 0;     // of the highest level with one; lower levels are no faster. 0: none
};

// Goes down from FirstLevel() until the splits of a level fit in bytes: slots are rounded, so the
// splits of a level may take more bytes than it stands for. Each step down is as large as the
// excess over the budget. Where no level fits, or the limits on levels and proofs are reached:
// step 3.
absl::StatusOr<std::optional<Candidate>> LevelSearch::Run() {
  constexpr int kMaxLevels = 64;  // levels tried
  const SlotGrid& grid = tables_.grid();
  int64_t level = grid.bytes > 0 ? FirstLevel() : -1;
  for (int tried = 0; tried < kMaxLevels && proofs_left_ > 0 && level >= 0; ++tried) {
    ASSIGN_OR_RETURN(std::optional<SimulatedSplits> splits, SolveLevel(level));
    if (!splits.has_value()) break;
    if (Fits(*splits)) {
      // Unproved splits of a higher level may be faster than the best of this one. This level's
      // certificate then holds for them, too.
      if (unproved_.has_value() && unproved_->makespan_seconds < splits->makespan_seconds) {
        splits->schedule = std::move(unproved_->schedule);
        splits->peak_bytes = unproved_->peak_bytes;
        splits->makespan_seconds = unproved_->makespan_seconds;
      }
      return std::optional<Candidate>(ToCandidate(programs_.program, *splits));
    }
    if (bound_ == 0) bound_ = splits->bound_seconds;
    if (exact_ == nullptr && splits->bound_seconds > 0) {
      --proofs_left_;
      RETURN_IF_ERROR(UseExactSplitsIfQuick());
    }
    level -= std::max<int64_t>(1, grid.Slots(splits->peak_bytes - memory_bytes_));
    too_large_ = std::move(splits);
  }
  ASSIGN_OR_RETURN(std::optional<SimulatedSplits> best, FitInBytes());
  if (!best.has_value()) return std::optional<Candidate>();
  best->bound_seconds = bound_;
  best->certified = bound_ > 0 && best->makespan_seconds <= bound_ * (1 + kTimeNoise);
  return std::optional<Candidate>(ToCandidate(programs_.program, *best));
}

// The level from which the search goes down: as far above the budget as the grid goes above its own
// bytes.
int64_t LevelSearch::FirstLevel() const {
  const SlotGrid& grid = tables_.grid();
  if (grid.rounding == SlotGrid::Rounding::kUp) {
    // Sizes are rounded up, so the budget is rounded down.
    const long double slots = static_cast<long double>(memory_bytes_) / grid.bytes * grid.slots;
    return std::min(static_cast<int64_t>(slots), grid.slots);
  }
  const int64_t levels = static_cast<int64_t>(tables_.shares()) - 1 + tables_.input_slots();
  const int64_t level = std::min(grid.slots, grid.Slots(memory_bytes_));
  return std::min(levels, level + (levels - grid.slots) * level / std::max<int64_t>(1, grid.slots));
}

// The best splits within `level` slots; nullopt: there are none.
absl::StatusOr<std::optional<SimulatedSplits>> LevelSearch::SolveLevel(int64_t level) {
  const int64_t share = level - tables_.input_slots();
  if (share < 0) return std::optional<SimulatedSplits>();
  return exact_ != nullptr ? SolveExactly(share) : SolveByConvexity(share);
}

absl::StatusOr<std::optional<SimulatedSplits>> LevelSearch::SolveExactly(int64_t share) const {
  ASSIGN_OR_RETURN(const std::optional<Splits> splits, exact_->Within(share, context_));
  if (!splits.has_value()) return std::optional<SimulatedSplits>();
  std::optional<SimulatedSplits> simulated =
      SimulateSplits(programs_.instance, tables_.ToSchedule(splits->sequences));
  if (!simulated.has_value()) return simulated;
  simulated->certified = true;
  simulated->bound_seconds = splits->seconds;
  return simulated;
}

// The convex program's splits, then their proof. Splits that fit are reported, and remembered in
// unproved_, before the proof. Splits that do not fit are proved only while there is no bound.
absl::StatusOr<std::optional<SimulatedSplits>> LevelSearch::SolveByConvexity(int64_t share) {
  ASSIGN_OR_RETURN(const ConvexSplits convex, FindConvexSplits(tables_, share, context_));
  if (!convex.splits.sequences.empty()) {
    std::optional<SimulatedSplits> simulated =
        SimulateSplits(programs_.instance, tables_.ToSchedule(convex.splits.sequences));
    if (simulated.has_value() && !Fits(*simulated) && bound_ != 0) return simulated;
    ReportImproved(programs_, simulated, memory_bytes_, context_);
    if (simulated.has_value() && Fits(*simulated)) KeepFaster(std::move(simulated), &unproved_);
  }
  ASSIGN_OR_RETURN(const SplitCertificate proof, CertifySplits(tables_, share, convex, context_));
  if (proof.splits.sequences.empty()) return std::optional<SimulatedSplits>();
  std::optional<SimulatedSplits> simulated =
      SimulateSplits(programs_.instance, tables_.ToSchedule(proof.splits.sequences));
  if (!simulated.has_value()) return simulated;
  simulated->certified = proof.certified;
  simulated->bound_seconds = proof.bound_seconds;
  return simulated;
}

// The recurrence in full solves all lower levels for little more than the time of a second proof.
absl::Status LevelSearch::UseExactSplitsIfQuick() {
  if (!FullRecurrenceIsQuick()) return absl::OkStatus();
  ASSIGN_OR_RETURN(full_, ExactSplits::Find(tables_, context_.Quiet()));
  exact_ = &*full_;
  return absl::OkStatus();
}

// Whether it takes a few seconds at most.
bool LevelSearch::FullRecurrenceIsQuick() const {
  constexpr double kMaxSums = 1.5e11;
  const double operators = tables_.operators();
  const auto shares = static_cast<double>(tables_.shares());
  return operators * operators / 2 * shares * shares <= kMaxSums;
}

// Step 3 of the header: the fastest of what fits without a level.
absl::StatusOr<std::optional<SimulatedSplits>> LevelSearch::FitInBytes() {
  std::optional<SimulatedSplits> best = std::move(unproved_);
  std::optional<SimulatedSplits> least =
      SimulateSplits(programs_.instance, programs_.minimum->LeastSchedule());
  if (least.has_value() && Fits(*least)) KeepFaster(std::move(least), &best);
  ASSIGN_OR_RETURN(std::optional<SimulatedSplits> fitted, FitModesByRotor());
  if (fitted.has_value() && Fits(*fitted)) KeepFaster(std::move(fitted), &best);
  return best;
}

// Rotor's schedule, in bytes, with the modes of the last splits that were too large; nullopt when
// there are none, no such schedule fits, or rotor's table does not fit beside the solution.
absl::StatusOr<std::optional<SimulatedSplits>> LevelSearch::FitModesByRotor() const {
  const Instance& instance = programs_.instance;
  const std::unique_ptr<Solver> rotor = MakeRotor();
  const bool has_room =
      CheckedAdd(MixedSolutionBytes(programs_.program, instance), rotor->WorkingBytes(instance))
          .value_or(INT64_MAX) <= context_.working_bytes;
  if (!too_large_.has_value() || !has_room) return std::optional<SimulatedSplits>();
  ASSIGN_OR_RETURN(const Execution execution,
                   Execution::Of(instance.chain(), instance.units(), too_large_->schedule));
  const Instance fixed = instance.WithChain(execution.chain()).WithMemory(memory_bytes_);
  const SolveContext quiet = context_.Quiet();
  ASSIGN_OR_RETURN(const auto solution, rotor->Solve(fixed, quiet));
  ASSIGN_OR_RETURN(std::optional<Candidate> fitted, solution->ScheduleWithin(memory_bytes_, quiet));
  if (!fitted.has_value()) return std::optional<SimulatedSplits>();
  return SimulateSplits(instance, execution.ToChain(fitted->schedule));
}

class MixedSolution final : public Solution {
 public:
  MixedSolution(SplitProgram program, const Instance& instance)
      : programs_{.program = program,
                  .instance = instance,
                  .fastest = FastestStored(instance),
                  .minimum = {},
                  .tables = {},
                  .exact = {}} {}

  // Call once, before anything else.
  absl::Status Build(const SolveContext& context);

  absl::StatusOr<std::optional<Candidate>> ScheduleWithin(
      int64_t memory_bytes, const SolveContext& context) const override {
    if (memory_bytes >= programs_.fastest.peak_bytes) {
      return std::optional<Candidate>(
          {programs_.fastest.schedule, NameOf(programs_.program), Guarantee::kOptimal, {}});
    }
    if (memory_bytes < programs_.minimum->min_bytes()) return std::optional<Candidate>();
    return LevelSearch(programs_, memory_bytes, context).Run();
  }

  // Rounded slots lose more the smaller the budget is against the grid's.
  int64_t serves_from_bytes() const override {
    const std::optional<ModeTables>& tables = programs_.tables;
    if (!tables.has_value() || tables->grid().rounding == SlotGrid::Rounding::kUp) return 0;
    return tables->grid().bytes / 2;
  }

 private:
  MixedPrograms programs_;  // immutable after Build()
};

absl::Status MixedSolution::Build(const SolveContext& context) {
  const Instance& instance = programs_.instance;
  ASSIGN_OR_RETURN(programs_.minimum, MixedMinimum::Build(instance.chain(), context));
  // No tables where every budget that can be queried has the fastest schedule, or none has any.
  const int64_t memory_bytes = instance.platform().memory_bytes;
  const int64_t lowest = std::min(context.lowest_bytes, memory_bytes);
  if (lowest >= programs_.fastest.peak_bytes) return absl::OkStatus();
  if (memory_bytes < programs_.minimum->min_bytes()) return absl::OkStatus();
  // The first schedule, long before the tables are there.
  ReportImproved(programs_, SimulateSplits(instance, programs_.minimum->LeastSchedule()),
                 memory_bytes, context);
  const bool exact = programs_.program == SplitProgram::kExact;
  SolveContext share = context;
  share.progress = [&context, exact](double fraction) {
    context.Report(exact ? fraction / 2 : fraction);
  };
  ASSIGN_OR_RETURN(programs_.tables,
                   ModeTables::Build(instance.chain(), TableOptions(instance), share));
  if (exact) {
    share.progress = [&context](double fraction) { context.Report(0.5 + fraction / 2); };
    ASSIGN_OR_RETURN(programs_.exact, ExactSplits::Find(*programs_.tables, share));
  }
  context.Report(1);
  return absl::OkStatus();
}

}  // namespace

const char* NameOf(SplitProgram program) {
  return program == SplitProgram::kConvex ? "mixed_mode" : "mixed_mode_exact";
}

StoredSchedule FastestStored(const Instance& instance) {
  const Chain& chain = instance.chain();
  const ChainUnits& units = instance.units();
  const Execution execution = Execution::Of(chain, units, FastestModes(chain, units));
  return {execution.ToChain(StoreAllSchedule(execution.chain())),
          StoreAllPeakBytes(execution.chain())};
}

int64_t MixedSolutionBytes(SplitProgram program, const Instance& instance) {
  const Chain& chain = instance.chain();
  const int64_t levels = MostLevels(instance);
  const int64_t splits = program == SplitProgram::kExact
                             ? ExactSplits::WorkingBytes(chain.length() + 1, levels)
                             : SplitCertificateBytes(chain.length() + 1, levels);
  return CheckedAdd(ModeTables::WorkingBytes(chain, levels),
                    MixedMinimum::WorkingBytes(chain) + splits)
      .value_or(INT64_MAX);
}

absl::StatusOr<std::unique_ptr<const Solution>> BuildMixedSolution(SplitProgram program,
                                                                   const Instance& instance,
                                                                   const SolveContext& context) {
  auto solution = std::make_unique<MixedSolution>(program, instance);
  RETURN_IF_ERROR(solution->Build(context));
  return solution;
}

}  // namespace stowage
