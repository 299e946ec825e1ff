#include "solver/algorithms/auto/full_length.h"

#include <cstdint>

namespace stowage {
namespace {

constexpr int kMaxDirectStages = 600;
constexpr int kMaxDirectStagesWithLink = 200;

// A limit for a solver on chains that are not solved directly.
struct Limits {
  absl::string_view solver;
  int max_stages = 0;
  int max_stretch = 0;  // see HasShortStretches()
};

constexpr int kAny = 1'000'000;
constexpr Limits kLimits[] = {
    {"store_all", kAny, kAny},      {"periodic", 1000, kAny},     {"rotor", 600, kAny},
    {"offload_greedy", kAny, kAny}, {"offload_vdnn", 1000, kAny}, {"offload_dynprog", 1000, kAny},
    {"opportunist", 1000, kAny},    {"autocapper", 600, 40},      {"pofo", 1000, 120},
};

// Whether stretches of stages that may run again are short: the cube root of the sum of the cubes
// of their lengths is at most `most`. What may not run again ends a stretch, since no part of the
// chain is recomputed across it, and parts are what pofo spends its time on: O(stretch^3).
bool HasShortStretches(const Chain& chain, int64_t most) {
  int64_t work = 0;
  int64_t stretch = 0;
  for (const Stage& stage : chain.stages) {
    stretch = stage.no_recompute ? 0 : stretch + 1;
    // The differences of cubes add up to the cube of the stretch.
    work += 3 * stretch * stretch - 3 * stretch + (stretch > 0 ? 1 : 0);
  }
  return work <= most * most * most;
}

}  // namespace

bool IsSolvedDirectly(const Chain& chain, const Platform& platform) {
  return chain.length() <= (platform.has_link() ? kMaxDirectStagesWithLink : kMaxDirectStages);
}

bool AsksAtFullLength(absl::string_view solver, const Chain& chain, const Platform& platform) {
  if (IsSolvedDirectly(chain, platform)) return true;
  for (const Limits& limits : kLimits) {
    if (limits.solver != solver) continue;
    return chain.length() <= limits.max_stages && HasShortStretches(chain, limits.max_stretch);
  }
  return false;
}

}  // namespace stowage
