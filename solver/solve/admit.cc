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

// Where layers, and what is beside them then, take so much at their highest.
Verdict WithPeak(const AdmitRequest& request, size_t device, Verdict::Fit fit, int64_t layers) {
  const int64_t outside = BesideChainOf(request.job).outside;
  return {.device = device,
          .fit = fit,
          .peak_bytes = std::max(layers, outside),
          .peak_outside_layers = outside > layers};
}

// With all layers kept.
Verdict PlainVerdict(const AdmitRequest& request, size_t device, Verdict::Fit fit) {
  const TrainingJob& job = request.job;
  const BesideChain beside = BesideChainOf(job);
  return WithPeak(request, device, fit,
                  job.plain_peak_bytes.has_value() ? beside.step + *job.plain_peak_bytes
                                                   : beside.layers + StoreAllPeakBytes(job.chain));
}

}  // namespace

std::optional<Verdict> VerdictWithoutPlan(const AdmitRequest& request, size_t device) {
  const Verdict verdict = PlainVerdict(request, device, Verdict::Fit::kFits);
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
  const bool has_schedule = answer->outcome != Outcome::kInfeasible;
  const int64_t left = LeftToLayers(request, device);
  if (has_schedule && left >= 0 && beside.outside <= platform.memory_bytes) {
    Verdict verdict = WithPeak(request, device, Verdict::Fit::kFitsWithPlan,
                               beside.layers + answer->prediction.peak_memory_bytes);
    verdict.platform = platform;
    verdict.platform.memory_bytes = left;
    verdict.plan = std::move(answer);
    return verdict;
  }
  Verdict verdict = PlainVerdict(request, device, Verdict::Fit::kDoesNotFit);
  std::optional<int64_t> least = answer->minimum_memory_bytes;
  if (has_schedule) least = answer->prediction.peak_memory_bytes;  // for what is left, or nothing
  if (least.has_value()) {
    const int64_t enough = std::max(beside.layers + *least, beside.outside);
    verdict.minimum_memory_bytes = std::min(enough, verdict.peak_bytes);
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
