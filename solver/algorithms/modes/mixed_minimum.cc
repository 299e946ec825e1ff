#include "solver/algorithms/modes/mixed_minimum.h"

#include <algorithm>
#include <utility>

#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// Stands for infinity; more than any sub-sequence needs.
constexpr int64_t kInfeasible = kMaxTotalBytes;

}  // namespace

absl::StatusOr<MixedMinimum> MixedMinimum::Build(const Chain& chain, const SolveContext& context) {
  GraphUnits units(chain, 0);  // any budget will do: K is not compared with one
  ASSIGN_OR_RETURN(RotorMinimum eager, RotorMinimum::Build(chain, Saving::kAlways, context));
  ASSIGN_OR_RETURN(RotorMinimum graph,
                   RotorMinimum::Build(units.chain(), Saving::kAlways, context));
  MixedMinimum minimum(std::move(units), std::move(eager), std::move(graph));
  RETURN_IF_ERROR(minimum.FindPath(context));
  return minimum;
}

int64_t MixedMinimum::WorkingBytes(const Chain& chain) {
  return 2 * RotorMinimum::WorkingBytes(chain);
}

// K of the header.
int64_t MixedMinimum::LeastOf(int i, int j, Mode mode) const {
  if (mode == Mode::kEager) return eager_.min_bytes(i, j - 1);
  if (!units_.IsRun(i, j)) return kInfeasible;
  return graph_.min_bytes(units_.before(i), units_.before(j) - 1);
}

MixedMinimum::MixedMinimum(GraphUnits units, RotorMinimum eager, RotorMinimum graph)
    : units_(std::move(units)), eager_(std::move(eager)), graph_(std::move(graph)) {}

// The recurrence of the header, then its path from the end.
absl::Status MixedMinimum::FindPath(const SolveContext& context) {
  const int count = eager_.sizes().stages();
  std::vector<int64_t> least(static_cast<size_t>(count) + 1, kInfeasible);
  std::vector<SubSequence> last(least.size());
  least[0] = 0;
  for (int end = 1; end <= count; ++end) {
    RETURN_IF_ERROR(context.CheckStop());
    for (int begin = 0; begin < end; ++begin) {
      for (const Mode mode : {Mode::kEager, Mode::kGraph}) {
        const int64_t share = LeastOf(begin, end, mode);
        if (share == kInfeasible) continue;
        const int64_t sum = least[static_cast<size_t>(begin)] + share;
        if (sum >= least[static_cast<size_t>(end)]) continue;
        least[static_cast<size_t>(end)] = sum;
        last[static_cast<size_t>(end)] = {begin, end, mode, share};
      }
    }
  }
  // From the end back along the last sub-sequences; eager mode makes every position reachable.
  for (int end = count; end > 0; end = sequences_.back().begin) {
    sequences_.push_back(last[static_cast<size_t>(end)]);
  }
  std::reverse(sequences_.begin(), sequences_.end());
  min_bytes_ = eager_.input_bytes() + least.back();
  return absl::OkStatus();
}

// Rotor's least schedule of every sub-sequence on the path, joined.
std::optional<Schedule> MixedMinimum::LeastSchedule() const {
  std::vector<Schedule> schedules;
  for (const SubSequence& one : sequences_) {
    const bool graph = one.mode == Mode::kGraph;
    std::optional<Schedule> schedule =
        graph ? graph_.LeastSchedule(units_.before(one.begin), units_.before(one.end) - 1)
              : eager_.LeastSchedule(one.begin, one.end - 1);
    if (!schedule.has_value()) return std::nullopt;
    schedules.push_back(graph ? units_.ToChain(*std::move(schedule)) : *std::move(schedule));
  }
  return JoinSubSequences(schedules);
}

}  // namespace stowage
