#include "solver/solve/first_candidate.h"

#include <utility>

#include "absl/status/statusor.h"
#include "solver/algorithms/rematerialization/periodic.h"
#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/schedule.h"
#include "solver/simulator/simulator.h"

namespace stowage {

std::optional<Candidate> FirstCandidate(const SolveRequest& request, const ChainUnits& units,
                                        const std::stop_token& stop) {
  const Chain& chain = request.chain;
  if (request.platform.memory_bytes < FloorOfMemory(chain, units).bytes) return std::nullopt;
  std::optional<Candidate> first;
  const auto fits = [&](Schedule schedule, const char* solver) {
    const absl::StatusOr<Simulation> simulation =
        Simulate(chain, units, request.platform, schedule, nullptr, stop);
    if (!simulation.ok() || !simulation->feasible()) return false;
    first.emplace(Candidate{std::move(schedule), solver, Guarantee::kTimeRanOut, {}});
    return true;
  };
  if (fits(StoreAllSchedule(chain), "store_all")) return first;
  for (int segments = 2; segments <= chain.length() && !stop.stop_requested(); segments *= 2) {
    if (fits(PeriodicSchedule(chain, segments), "periodic")) return first;
  }
  for (int leaf = chain.length() / 2; leaf >= 1 && !stop.stop_requested(); leaf /= 2) {
    if (fits(HalvingSchedule(chain, leaf), "periodic")) return first;
  }
  return std::nullopt;
}

}  // namespace stowage
