#include "solver/algorithms/flat/layers.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "solver/algorithms/flat/plan_arcs.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

using Plan = std::vector<Piece> (*)(const Chain& chain, const std::vector<Piece>& layers,
                                    int count);

struct Setting {
  const char* solver;
  Plan plan;
  bool by_options;  // its layers may be saved in part
};

constexpr Setting kUniform = {"uniform", UniformPlan, false};
constexpr Setting kBlock = {"block", BlockPlan, true};
constexpr Setting kEveryNth = {"every_nth", EveryNthPlan, true};

std::vector<Piece> NothingRecomputed(const Chain& chain) { return {{1, chain.length(), false}}; }

// One count, or, as 0, recomputing nothing.
struct Trial {
  int count = 0;
  int save_option = 0;  // of the layers that are not recomputed then; 0: they are
  PlanCost cost;
};

std::vector<Piece> PiecesOf(const Setting& setting, const Chain& chain,
                            const std::vector<Piece>& layers, int count, int save_option) {
  if (count == 0) return NothingRecomputed(chain);
  if (save_option == 0) return setting.plan(chain, layers, count);
  std::vector<Piece> pieces = setting.plan(chain, layers, count);
  for (Piece& piece : pieces) {
    if (piece.recomputed) piece = {piece.first, piece.last, false, save_option};
  }
  return pieces;
}

class SettingSolution final : public Solution {
 public:
  SettingSolution(const Setting& setting, const Instance& instance, std::vector<Trial> trials)
      : setting_(setting),
        chain_(instance.chain()),
        layers_(LayersOf(instance.units())),
        trials_(std::move(trials)) {}

  absl::StatusOr<std::optional<Candidate>> ScheduleWithin(int64_t memory_bytes,
                                                          const SolveContext&) const override {
    const Trial* best = nullptr;
    for (const Trial& trial : trials_) {
      if (trial.cost.peak_bytes > memory_bytes) continue;
      if (best == nullptr || std::pair(trial.cost.ticks, trial.cost.peak_bytes) <
                                 std::pair(best->cost.ticks, best->cost.peak_bytes)) {
        best = &trial;
      }
    }
    if (best == nullptr) return std::optional<Candidate>();
    const std::vector<Piece> pieces =
        PiecesOf(setting_, chain_, layers_, best->count, best->save_option);
    return Candidate{FlatSchedule(chain_, pieces), setting_.solver, Guarantee::kOptimal, {}};
  }

  bool exact() const override { return true; }

 private:
  const Setting setting_;
  const Chain chain_;
  const std::vector<Piece> layers_;
  const std::vector<Trial> trials_;
};

absl::StatusOr<std::vector<Trial>> TryAll(const Setting& setting, const Instance& instance,
                                          const SolveContext& context) {
  const Chain& chain = instance.chain();
  const std::vector<Piece> layers = LayersOf(instance.units());
  const PlanCosts costs(chain);
  std::vector<Trial> trials;
  trials.push_back({0, 0, costs.Of(NothingRecomputed(chain))});
  const int last = static_cast<int>(layers.size());
  const int options = setting.by_options && chain.has_save_options() ? kMaxSaveOptions : 0;
  for (int count = 1; count <= last; ++count) {
    RETURN_IF_ERROR(context.CheckStop());
    for (int k = 0; k <= options; ++k) {
      trials.push_back({count, k, costs.Of(PiecesOf(setting, chain, layers, count, k))});
    }
    context.Report(static_cast<double>(count) / last);
  }
  return trials;
}

class SettingSolver final : public Solver {
 public:
  explicit SettingSolver(const Setting& setting) : setting_(setting) {}

  int64_t WorkingBytes(const Instance& instance) const override {
    constexpr int64_t kBytesPerStage = 1024;  // plans, a schedule, trials, a copy of the chain
    return (instance.chain().length() + 2) * kBytesPerStage;
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    ASSIGN_OR_RETURN(const std::vector<Trial> trials, TryAll(setting_, instance, context));
    int64_t least = INT64_MAX;
    for (const Trial& trial : trials) least = std::min(least, trial.cost.peak_bytes);
    return least;
  }

  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    ASSIGN_OR_RETURN(std::vector<Trial> trials, TryAll(setting_, instance, context));
    return std::make_unique<SettingSolution>(setting_, instance, std::move(trials));
  }

 private:
  const Setting setting_;
};

}  // namespace

std::vector<Piece> LayersOf(const ChainUnits& units) {
  std::vector<Piece> layers;
  for (const Unit& unit : units) layers.push_back({unit.first, unit.last, false});
  layers.pop_back();  // the loss
  return layers;
}

std::vector<Piece> UniformPlan(const Chain& chain, const std::vector<Piece>& layers, int count) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (i % static_cast<size_t>(count) == 0) {
      pieces.push_back({layers[i].first, layers[i].last, true});
    } else {
      pieces.back().last = layers[i].last;
    }
  }
  return SplitAtNoRecompute(chain, pieces);
}

std::vector<Piece> BlockPlan(const Chain& chain, const std::vector<Piece>& layers, int count) {
  std::vector<Piece> pieces = layers;
  for (size_t i = 0; i < pieces.size(); ++i) pieces[i].recomputed = i < static_cast<size_t>(count);
  return SplitAtNoRecompute(chain, pieces);
}

std::vector<Piece> EveryNthPlan(const Chain& chain, const std::vector<Piece>& layers, int count) {
  std::vector<Piece> pieces = layers;
  for (size_t i = 0; i < pieces.size(); ++i) {
    pieces[i].recomputed = (i + 1) % static_cast<size_t>(count) == 0;
  }
  return SplitAtNoRecompute(chain, pieces);
}

std::unique_ptr<Solver> MakeUniform() { return std::make_unique<SettingSolver>(kUniform); }

std::unique_ptr<Solver> MakeBlock() { return std::make_unique<SettingSolver>(kBlock); }

std::unique_ptr<Solver> MakeEveryNth() { return std::make_unique<SettingSolver>(kEveryNth); }

}  // namespace stowage
