#include "solver/algorithms/modes/mixed_mode.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

enum class Program { kConvex, kExact };

const char* NameOf(Program program) {
  return program == Program::kConvex ? "mixed_mode" : "mixed_mode_exact";
}

// Everything stored, every stage in the mode that is fastest with all memory: nothing is faster.
struct Fastest {
  Schedule schedule;
  int64_t peak_bytes = 0;
};

Fastest FastestOf(const Chain& chain) {
  const Execution execution = Execution::Of(chain, FastestModes(chain));
  return {execution.ToChain(StoreAllSchedule(execution.chain())),
          StoreAllPeakBytes(execution.chain())};
}

int64_t SlotsOf(const Instance& instance) {
  const int64_t asked = instance.options().memory_slots;
  return asked > 0 ? asked : kDefaultMemorySlots;
}

// Beyond it memory makes no difference.
int64_t UsefulBytes(const Instance& instance) {
  return std::min(instance.platform().memory_bytes, FastestOf(instance.chain()).peak_bytes);
}

ModeTables::Options TablesOf(const Instance& instance) {
  const int64_t bytes = UsefulBytes(instance);
  const int64_t granules = bytes / instance.granule_bytes();
  const int64_t slots = SlotsOf(instance);
  if (slots >= granules) {
    const int64_t whole = granules * instance.granule_bytes();
    return {{whole, granules, SlotGrid::Rounding::kUp}, granules};
  }
  const SlotGrid grid = BestFittingGrid(instance.chain(), bytes, slots);
  return {grid, LevelsBeyond(instance.chain(), grid)};
}

// More levels than TablesOf() ever has.
int64_t MostLevels(const Instance& instance) {
  const int64_t slots = SlotsOf(instance);
  return std::min(slots + slots * 9 / 10 + 2,
                  instance.platform().memory_bytes / instance.granule_bytes() + slots);
}

// What a solve allocates: tables, minimum and splits.
int64_t SplitsBytes(Program program, const Instance& instance) {
  const Chain& chain = instance.chain();
  const int64_t levels = MostLevels(instance);
  const int64_t splits = program == Program::kExact
                             ? ExactSplits::WorkingBytes(chain.length() + 1, levels)
                             : SplitCertificateBytes(chain.length() + 1, levels);
  return CheckedAdd(ModeTables::WorkingBytes(chain, levels),
                    MixedMinimum::WorkingBytes(chain) + splits)
      .value_or(INT64_MAX);
}

class MixedSolution final : public Solution {
 public:
  static absl::StatusOr<std::unique_ptr<const Solution>> Build(Program program,
                                                               const Instance& instance,
                                                               const SolveContext& context);

  absl::StatusOr<std::optional<Candidate>> ScheduleWithin(
      int64_t memory_bytes, const SolveContext& context) const override;
  int64_t serves_from_bytes() const override {
    if (!tables_.has_value() || tables_->grid().rounding == SlotGrid::Rounding::kUp) return 0;
    return tables_->grid().bytes / 2;
  }

 private:
  MixedSolution(Program program, const Instance& instance)
      : program_(program), instance_(instance), fastest_(FastestOf(instance_.chain())) {}

  // A schedule, and what is known of its splits.
  struct Found {
    Schedule schedule;
    int64_t peak_bytes = 0;
    double makespan_seconds = 0;
    bool certified = false;
    double bound_seconds = 0;  // no splits within that memory are faster; 0 where not known
  };
  // nullopt: there is no schedule, or the simulator refuses it.
  std::optional<Found> ToFound(std::optional<Schedule> schedule) const;
  // What the program finds at one level. What fits is passed on before it is proved to be the best;
  // what does not fit is not proved, unless a bound is wanted.
  absl::StatusOr<std::optional<Found>> FindAt(int64_t level, int64_t memory_bytes, bool wants_bound,
                                              const ExactSplits* exact, const SolveContext& context,
                                              std::optional<Found>* unproved) const;
  absl::StatusOr<std::optional<Found>> FindInBytes(std::optional<Found> best,
                                                   const std::optional<Found>& too_large,
                                                   int64_t memory_bytes,
                                                   const SolveContext& context) const;
  bool FullRecurrenceIsQuick() const;
  int64_t HighestLevel(int64_t memory_bytes) const;
  Candidate ToCandidate(const Found& found) const;
  void PassOn(const std::optional<Found>& found, int64_t memory_bytes,
              const SolveContext& context) const;

  const Program program_;
  const Instance instance_;
  const Fastest fastest_;
  // Written by Build(). The tables only where they can be asked.
  std::optional<MixedMinimum> minimum_;
  std::optional<ModeTables> tables_;
  std::optional<ExactSplits> exact_;
};

absl::StatusOr<std::unique_ptr<const Solution>> MixedSolution::Build(Program program,
                                                                     const Instance& instance,
                                                                     const SolveContext& context) {
  std::unique_ptr<MixedSolution> solution(new MixedSolution(program, instance));
  const Chain& chain = solution->instance_.chain();
  ASSIGN_OR_RETURN(solution->minimum_, MixedMinimum::Build(chain, context));
  const int64_t lowest = std::min(context.lowest_bytes, instance.platform().memory_bytes);
  if (lowest >= solution->fastest_.peak_bytes) return solution;
  if (instance.platform().memory_bytes < solution->minimum_->least_bytes()) return solution;
  solution->PassOn(solution->ToFound(solution->minimum_->LeastSchedule()),
                   instance.platform().memory_bytes, context);
  const bool exact = program == Program::kExact;
  SolveContext share = context;
  share.progress = [&context, exact](double fraction) {
    context.Report(exact ? fraction / 2 : fraction);
  };
  ASSIGN_OR_RETURN(solution->tables_, ModeTables::Build(chain, TablesOf(instance), share));
  if (exact) {
    share.progress = [&context](double fraction) { context.Report(0.5 + fraction / 2); };
    ASSIGN_OR_RETURN(solution->exact_, ExactSplits::Find(*solution->tables_, share));
  }
  context.Report(1);
  return solution;
}

std::optional<MixedSolution::Found> MixedSolution::ToFound(std::optional<Schedule> schedule) const {
  if (!schedule.has_value()) return std::nullopt;
  const absl::StatusOr<Simulation> simulation =
      Simulate(instance_.chain(), instance_.platform(), *schedule);
  if (!simulation.ok()) return std::nullopt;
  return Found{*std::move(schedule), simulation->prediction.peak_memory_bytes,
               simulation->prediction.makespan_seconds};
}

// To those who may not wait for the rest.
void MixedSolution::PassOn(const std::optional<Found>& found, int64_t memory_bytes,
                           const SolveContext& context) const {
  if (!context.improved || !found.has_value() || found->peak_bytes > memory_bytes) return;
  if (memory_bytes == instance_.platform().memory_bytes) context.improved(ToCandidate(*found));
}

absl::StatusOr<std::optional<MixedSolution::Found>> MixedSolution::FindAt(
    int64_t level, int64_t memory_bytes, bool wants_bound, const ExactSplits* exact,
    const SolveContext& context, std::optional<Found>* unproved) const {
  const int64_t share = level - tables_->input_slots();
  if (share < 0) return std::optional<Found>();
  if (exact != nullptr) {
    ASSIGN_OR_RETURN(const std::optional<Splits> splits, exact->Within(share, context));
    if (!splits.has_value()) return std::optional<Found>();
    std::optional<Found> found = ToFound(tables_->ToSchedule(splits->sequences));
    if (!found.has_value()) return found;
    found->certified = true;
    found->bound_seconds = splits->seconds;
    return found;
  }
  ASSIGN_OR_RETURN(const ConvexSplits convex, FindConvexSplits(*tables_, share, context));
  if (!convex.splits.sequences.empty()) {
    *unproved = ToFound(tables_->ToSchedule(convex.splits.sequences));
    if (unproved->has_value() && (*unproved)->peak_bytes > memory_bytes && !wants_bound) {
      return *unproved;
    }
    PassOn(*unproved, memory_bytes, context);
  }
  ASSIGN_OR_RETURN(const SplitCertificate proof, CertifySplits(*tables_, share, convex, context));
  if (proof.splits.sequences.empty()) return std::optional<Found>();
  std::optional<Found> found = ToFound(tables_->ToSchedule(proof.splits.sequences));
  if (!found.has_value()) return found;
  found->certified = proof.certified;
  found->bound_seconds = proof.bound_seconds;
  return found;
}

Candidate MixedSolution::ToCandidate(const Found& found) const {
  Candidate candidate{found.schedule, NameOf(program_), Limit::kHeuristic, {}};
  if (found.certified) {
    // Of the program's class; whatever the slots, times are in single precision.
    candidate.limit = Limit::kRounding;
  } else if (found.bound_seconds > 0) {
    candidate.notes.push_back(absl::StrFormat(
        "the split by fixed shares is not proved to be the best one, but at most %.2f %% slower",
        100 * std::max(0.0, found.makespan_seconds / found.bound_seconds - 1)));
  } else {
    candidate.notes.push_back("the split by fixed shares is not proved to be the best one");
  }
  return candidate;
}

// Where the search for a level begins whose schedule fits in bytes.
int64_t MixedSolution::HighestLevel(int64_t memory_bytes) const {
  const SlotGrid& grid = tables_->grid();
  if (grid.rounding == SlotGrid::Rounding::kUp) {
    // What fits in slots must fit in bytes.
    const long double slots = static_cast<long double>(memory_bytes) / grid.bytes * grid.slots;
    return std::min(static_cast<int64_t>(slots), grid.slots);
  }
  const int64_t levels = static_cast<int64_t>(tables_->shares()) - 1 + tables_->input_slots();
  const int64_t level = std::min(grid.slots, grid.Slots(memory_bytes));
  return std::min(levels, level + (levels - grid.slots) * level / std::max<int64_t>(1, grid.slots));
}

absl::StatusOr<std::optional<Candidate>> MixedSolution::ScheduleWithin(
    int64_t memory_bytes, const SolveContext& context) const {
  if (memory_bytes >= fastest_.peak_bytes) {
    return std::optional<Candidate>({fastest_.schedule, NameOf(program_), Limit::kNone, {}});
  }
  if (memory_bytes < minimum_->least_bytes()) return std::optional<Candidate>();
  std::optional<Found> unproved;  // the best of those that fit
  std::optional<Found> too_large;
  const SlotGrid& grid = tables_->grid();
  constexpr int kMostTries = 64;
  int64_t level = grid.bytes > 0 ? HighestLevel(memory_bytes) : -1;
  int proofs_left = 3;  // of long chains each takes as long as their tables
  double bound = 0;     // of the highest level that has one, which holds below it, too
  std::optional<ExactSplits> full;
  const ExactSplits* exact = exact_.has_value() ? &*exact_ : nullptr;
  for (int tries = 0; tries < kMostTries && proofs_left > 0 && level >= 0; ++tries) {
    std::optional<Found> before;
    // So that the first one gives a bound, whatever fits.
    ASSIGN_OR_RETURN(std::optional<Found> found,
                     FindAt(level, memory_bytes, bound == 0, exact, context, &before));
    if (before.has_value() && before->peak_bytes <= memory_bytes &&
        (!unproved.has_value() || before->makespan_seconds < unproved->makespan_seconds)) {
      unproved = std::move(before);
    }
    if (!found.has_value()) break;
    if (found->peak_bytes <= memory_bytes) {
      // One of a higher level may be faster than the best of this one, which then holds of it, too.
      if (unproved.has_value() && unproved->makespan_seconds < found->makespan_seconds) {
        found->schedule = std::move(unproved->schedule);
      }
      return std::optional<Candidate>(ToCandidate(*found));
    }
    if (bound == 0) bound = found->bound_seconds;
    if (exact == nullptr && found->bound_seconds > 0) {
      --proofs_left;
      // All levels at once, for little more than a second proof.
      if (FullRecurrenceIsQuick()) {
        ASSIGN_OR_RETURN(full, ExactSplits::Find(*tables_, context.Quiet()));
        exact = &*full;
      }
    }
    level -= std::max<int64_t>(1, grid.Slots(found->peak_bytes - memory_bytes));
    too_large = std::move(found);
  }
  ASSIGN_OR_RETURN(std::optional<Found> best,
                   FindInBytes(std::move(unproved), too_large, memory_bytes, context));
  if (!best.has_value()) return std::optional<Candidate>();
  best->bound_seconds = bound;
  best->certified = bound > 0 && best->makespan_seconds <= bound * (1 + kTimeNoise);
  return std::optional<Candidate>(ToCandidate(*best));
}

// Where a slot more or less decides: the modes of the last split that was too large, made to fit in
// bytes by rotor, or the split that needs the least.
absl::StatusOr<std::optional<MixedSolution::Found>> MixedSolution::FindInBytes(
    std::optional<Found> best, const std::optional<Found>& too_large, int64_t memory_bytes,
    const SolveContext& context) const {
  const auto consider = [&best, memory_bytes](std::optional<Found> found) {
    if (!found.has_value() || found->peak_bytes > memory_bytes) return;
    if (best.has_value() && best->makespan_seconds <= found->makespan_seconds) return;
    best = std::move(found);
  };
  consider(ToFound(minimum_->LeastSchedule()));
  const std::unique_ptr<Solver> rotor = MakeRotor();
  const bool has_room = CheckedAdd(SplitsBytes(program_, instance_), rotor->WorkingBytes(instance_))
                            .value_or(INT64_MAX) <= context.working_bytes;
  if (too_large.has_value() && has_room) {
    ASSIGN_OR_RETURN(const Execution execution,
                     Execution::Of(instance_.chain(), too_large->schedule));
    const Instance fixed = instance_.WithChain(execution.chain()).WithMemory(memory_bytes);
    const SolveContext quiet = context.Quiet();
    ASSIGN_OR_RETURN(const auto solution, rotor->Solve(fixed, quiet));
    ASSIGN_OR_RETURN(std::optional<Candidate> fitted,
                     solution->ScheduleWithin(memory_bytes, quiet));
    if (fitted.has_value()) consider(ToFound(execution.ToChain(fitted->schedule)));
  }
  return best;
}

// A few seconds at most.
bool MixedSolution::FullRecurrenceIsQuick() const {
  constexpr double kMostSums = 1.5e11;
  const double operators = tables_->operators();
  const auto shares = static_cast<double>(tables_->shares());
  return operators * operators / 2 * shares * shares <= kMostSums;
}

class MixedSolver final : public Solver {
 public:
  explicit MixedSolver(Program program)
      : program_(program), plain_(MakePersistentSolver(NameOf(program), Saving::kAlways)) {}

  int64_t WorkingBytes(const Instance& instance) const override {
    if (!HasGraphMode(instance.chain())) return plain_->WorkingBytes(instance);
    return SplitsBytes(program_, instance);
  }
  // With a table of rotor's beside its own it fits splits in bytes that slots only nearly fit.
  int64_t WorkingBytesWithin(const Instance& instance, int64_t most_bytes) const override {
    const int64_t least = WorkingBytes(instance);
    if (!HasGraphMode(instance.chain())) return std::min(least, most_bytes);
    const int64_t rotor = MakeRotor()->WorkingBytes(instance);
    return std::min(most_bytes, CheckedAdd(least, rotor).value_or(INT64_MAX));
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    if (!HasGraphMode(instance.chain())) return plain_->LeastBytes(instance, context);
    ASSIGN_OR_RETURN(const MixedMinimum minimum, MixedMinimum::Build(instance.chain(), context));
    return std::min(minimum.least_bytes(), FastestOf(instance.chain()).peak_bytes);
  }

  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    if (!HasGraphMode(instance.chain())) return plain_->Solve(instance, context);
    return MixedSolution::Build(program_, instance, context);
  }

 private:
  const Program program_;
  const std::unique_ptr<Solver> plain_;
};

}  // namespace

std::unique_ptr<Solver> MakeMixedMode() { return std::make_unique<MixedSolver>(Program::kConvex); }

std::unique_ptr<Solver> MakeMixedModeExact() {
  return std::make_unique<MixedSolver>(Program::kExact);
}

}  // namespace stowage
