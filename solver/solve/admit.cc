#include "solver/solve/admit.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/job.h"

namespace stowage {
namespace {

// What the rest of the job leaves of the device while the layers run; negative: it does not fit.
int64_t LeftToLayers(const AdmitRequest& request, size_t device) {
  return request.devices[device].platform.memory_bytes - BesideChainOf(request.job).layers;
}

// Whose layers take so much at their highest.
Verdict WithPeak(const AdmitRequest& request, size_t device, Verdict::Fit fit,
                 int64_t layers_peak) {
  const BesideChain beside = BesideChainOf(request.job);
  const int64_t layers = beside.layers + layers_peak;
  return {.device = device,
          .fit = fit,
          .peak_bytes = std::max(layers, beside.update),
          .peak_in_update = beside.update > layers};
}

}  // namespace

std::optional<Verdict> VerdictWithoutPlan(const AdmitRequest& request, size_t device) {
  Verdict verdict =
      WithPeak(request, device, Verdict::Fit::kFits, StoreAllPeakBytes(request.job.chain));
  if (verdict.peak_bytes <= request.devices[device].platform.memory_bytes) return verdict;
  return std::nullopt;
}

SolveRequest PlanRequest(const AdmitRequest& request, size_t device) {
  SolveRequest solve{.chain = request.job.chain,
                     .platform = request.devices[device].platform,
                     .solver = request.solver,
                     .options = request.options};
  solve.platform.memory_bytes = std::max<int64_t>(0, LeftToLayers(request, device));
  return solve;
}

Verdict VerdictWithPlan(const AdmitRequest& request, size_t device,
                        std::shared_ptr<const Answer> answer) {
  const Platform& platform = request.devices[device].platform;
  const BesideChain beside = BesideChainOf(request.job);
  const bool has_schedule =
      answer->outcome != Outcome::kInfeasible && LeftToLayers(request, device) >= 0;
  if (has_schedule && beside.update <= platform.memory_bytes) {
    Verdict verdict = WithPeak(request, device, Verdict::Fit::kFitsWithPlan,
                               answer->prediction.peak_memory_bytes);
    verdict.platform = platform;
    verdict.platform.memory_bytes = LeftToLayers(request, device);
    verdict.plan = std::move(answer);
    return verdict;
  }
  Verdict verdict =
      WithPeak(request, device, Verdict::Fit::kDoesNotFit, StoreAllPeakBytes(request.job.chain));
  if (has_schedule) {
    verdict.minimum_memory_bytes = beside.update;  // more than the layers need
  } else if (answer->minimum_memory_bytes.has_value()) {
    verdict.minimum_memory_bytes =
        std::max(beside.layers + *answer->minimum_memory_bytes, beside.update);
  }
  return verdict;
}

std::vector<Verdict> Ranked(const AdmitRequest& request, std::vector<Verdict> verdicts) {
  const auto has_price = [](const JobDevice& device) { return device.price > 0; };
  if (absl::c_none_of(request.devices, has_price)) return verdicts;
  std::ranges::stable_sort(verdicts, {}, [&](const Verdict& verdict) {
    const JobDevice& device = request.devices[verdict.device];
    return std::tuple(verdict.fit == Verdict::Fit::kDoesNotFit,
                      has_price(device) ? device.price : std::numeric_limits<double>::infinity());
  });
  return verdicts;
}

}  // namespace stowage
