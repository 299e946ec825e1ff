#include "solver/algorithms/rematerialization/rotor_plan.h"

#include <algorithm>

#include "solver/algorithms/rematerialization/leaving_minimum.h"
#include "solver/base/checked_math.h"
#include "solver/bounds/memory_range.h"

namespace stowage {
namespace {

// The budget beyond which more memory makes no difference. Revolve may save a stage while a
// gradient is held, which storing everything never does, so it may need more.
int64_t UsefulBytes(const Instance& instance, Saving saving) {
  const Chain& chain = instance.chain();
  int64_t most = StoreAllPeakBytes(chain);
  if (saving != Saving::kAlways) {
    int64_t gradient = 0;
    int64_t overhead = 0;
    for (int l = 1; l <= chain.length() + 1; ++l) {
      gradient = std::max(gradient, chain.gradient_bytes(l));
      const Stage& stage = chain.stage(l);
      overhead = std::max({overhead, stage.forward_overhead_bytes, stage.SaveOverheadBytes(0)});
    }
    most += gradient + overhead;  // no overflow: the sum of all sizes is below 2^62
  }
  return std::min(instance.platform().memory_bytes, most);
}

int64_t SlotsOf(const Instance& instance) {
  const int64_t requested = instance.options().memory_slots;
  return requested > 0 ? requested : kDefaultMemorySlots;
}

// An upper bound on the levels of BestFittingGrid() plus LevelsBeyond() for that many slots.
int64_t MostLevels(int64_t slots) { return slots + slots * 3 / 5 + 2; }

// Whether to count in granules, without rounding: a table of the slots requested would have no
// fewer levels.
bool IsExact(const Instance& instance, Saving saving) {
  return MostLevels(SlotsOf(instance)) >= UsefulBytes(instance, saving) / instance.granule_bytes();
}

}  // namespace

int64_t TableBytes(const Instance& instance, Saving saving) {
  const int64_t granules = UsefulBytes(instance, saving) / instance.granule_bytes();
  const int64_t levels = IsExact(instance, saving) ? granules : MostLevels(SlotsOf(instance));
  return RotorTable::WorkingBytes(instance.chain(), levels);
}

TablePlan PlanOf(const Instance& instance, Saving saving, int64_t lowest_bytes) {
  const int64_t bytes = UsefulBytes(instance, saving);
  TablePlan plan;
  plan.table_bytes = TableBytes(instance, saving);
  // A budget of half the memory has half the slots, which is as coarse as a table may get.
  plan.lowest_budget = std::max(bytes / 2, std::min(bytes, lowest_bytes));
  if (IsExact(instance, saving)) {
    const int64_t granules = bytes / instance.granule_bytes();
    plan.table = {{bytes, granules, SlotGrid::Rounding::kUp}, granules, saving};
  } else {
    const int64_t slots = SlotsOf(instance);
    const SlotGrid grid = BestFittingGrid(instance.chain(), bytes, slots);
    plan.table = {grid, std::min(MostLevels(slots), LevelsBeyond(instance.chain(), grid)), saving};
  }
  // FastestOf() descends below the level of a budget when sizes were rounded down.
  plan.table.lowest_level = plan.table.grid.Slots(plan.lowest_budget / 4 * 3);
  return plan;
}

std::optional<LeavingTable::Options> LeavingPlanOf(const Instance& instance, const TablePlan& plan,
                                                   Saving saving) {
  if (!instance.chain().has_unread_inputs()) return std::nullopt;
  const int64_t most = LeavingTable::MaxLevels(instance.chain());
  const RotorTable::Options& table = plan.table;
  if (table.levels <= most) return LeavingTable::Options{table.grid, table.levels, saving};
  // Of the levels LevelsBeyond() adds 3/5 at most, and the grid has half as many slots more.
  const int64_t slots = most * 5 / 12;
  if (slots < kFewSlots) return std::nullopt;
  const SlotGrid grid = BestFittingGrid(instance.chain(), table.grid.bytes, slots);
  return LeavingTable::Options{grid, std::min(most, LevelsBeyond(instance.chain(), grid)), saving};
}

int64_t LeavingBytes(const Instance& instance, Saving saving) {
  const Chain& chain = instance.chain();
  if (!HasLeavingParts(chain)) return 0;
  const int64_t minimum = LeavingMinimum::WorkingBytes(chain);
  const int64_t own_ways = chain.has_save_options() ? TableBytes(instance, saving) : 0;
  const int64_t always = CheckedAdd(minimum, own_ways).value_or(INT64_MAX);
  if (!chain.has_unread_inputs()) return always;
  const int64_t granules = UsefulBytes(instance, saving) / instance.granule_bytes();
  const int64_t levels = IsExact(instance, saving) ? granules : MostLevels(SlotsOf(instance));
  const int64_t table =
      LeavingTable::WorkingBytes(chain, std::min(levels, LeavingTable::MaxLevels(chain)));
  return CheckedAdd(table, always).value_or(INT64_MAX);
}

}  // namespace stowage
