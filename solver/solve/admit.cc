#include "solver/solve/admit.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "solver/base/checked_math.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/job.h"
#include "solver/simulator/explain.h"

namespace stowage {
namespace {

// What the rest of the job leaves of the device while the layers run; negative: it does not fit.
int64_t LeftToLayers(const AdmitRequest& request, size_t device) {
  return request.devices[device].platform.memory_bytes - BesideChainOf(request.job).layers;
}

// What a micro-batch leaves between its forward and its backward, with all layers kept.
int64_t KeptBytes(const Chain& chain) {
  int64_t kept = chain.input_bytes;
  for (const Stage& stage : chain.stages) kept += stage.saved_bytes;
  return kept;
}

// The same with the schedule. O(operations + stages).
int64_t KeptBytes(const Chain& chain, const Platform& platform, const Schedule& schedule) {
  const auto turn = absl::c_find_if(schedule.operations, [](const Operation& operation) {
    return operation.kind == OperationKind::kBackward;
  });
  const MemoryByKind memory =
      ExplainMemory(chain, platform, schedule)[turn - schedule.operations.begin()];
  return memory.output_bytes + memory.saved_bytes;
}

int64_t InFlight(const TrainingJob& job) { return std::max(1, job.in_flight); }

// The peak of a micro-batch beside what the other ones in flight keep. Below 2^62 but for what
// never fits.
int64_t BesideOthers(const TrainingJob& job, int64_t peak, int64_t kept) {
  const int64_t others = SaturatingMultiply(InFlight(job) - 1, kept);
  return std::min(kMaxTotalBytes, peak + std::min(kMaxTotalBytes, others));
}

// Each micro-batch in flight gets an equal share, so that all fit whatever the others keep.
Platform PlatformOfPlan(const AdmitRequest& request, size_t device) {
  Platform share = request.devices[device].platform;
  const int64_t shares = InFlight(request.job);
  share.memory_bytes = std::max<int64_t>(0, LeftToLayers(request, device)) / shares;
  if (share.host_memory_bytes > 0) {
    // 0 is no limit.
    share.host_memory_bytes = std::max<int64_t>(1, share.host_memory_bytes / shares);
  }
  return share;
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
  const int64_t step = job.plain_peak_bytes.has_value() ? beside.step : beside.layers;
  const int64_t peak = job.plain_peak_bytes.value_or(StoreAllPeakBytes(job.chain));
  return WithPeak(request, device, fit, step + BesideOthers(job, peak, KeptBytes(job.chain)));
}

}  // namespace

std::optional<Verdict> VerdictWithoutPlan(const AdmitRequest& request, size_t device) {
  const Verdict verdict = PlainVerdict(request, device, Verdict::Fit::kFits);
  if (verdict.peak_bytes <= request.devices[device].platform.memory_bytes) return verdict;
  return std::nullopt;
}

SolveRequest PlanRequest(const AdmitRequest& request, size_t device) {
  return {.chain = request.job.chain,
          .platform = PlatformOfPlan(request, device),
          .solver = request.solver,
          .options = request.options};
}

Verdict VerdictWithPlan(const AdmitRequest& request, size_t device,
                        std::shared_ptr<const Answer> answer) {
  const Platform& platform = request.devices[device].platform;
  const BesideChain beside = BesideChainOf(request.job);
  const bool has_schedule = answer->outcome != Outcome::kInfeasible;
  const int64_t left = LeftToLayers(request, device);
  if (has_schedule && left >= 0 && beside.outside <= platform.memory_bytes) {
    const Chain& chain = request.job.chain;
    const Platform share = PlatformOfPlan(request, device);
    const int64_t kept = InFlight(request.job) == 1 ? 0 : KeptBytes(chain, share, answer->schedule);
    const int64_t layers = BesideOthers(request.job, answer->prediction.peak_memory_bytes, kept);
    Verdict verdict =
        WithPeak(request, device, Verdict::Fit::kFitsWithPlan, beside.layers + layers);
    verdict.platform = share;
    verdict.plan = std::move(answer);
    return verdict;
  }
  Verdict verdict = PlainVerdict(request, device, Verdict::Fit::kDoesNotFit);
  std::optional<int64_t> least = answer->minimum_memory_bytes;
  if (has_schedule) least = answer->prediction.peak_memory_bytes;  // for what is left, or nothing
  if (least.has_value()) {
    const int64_t layers = BesideOthers(request.job, *least, *least);
    const int64_t enough = std::max(beside.layers + layers, beside.outside);
    verdict.minimum_memory_bytes = std::min(enough, verdict.peak_bytes);
  }
  return verdict;
}

std::vector<Component> PartsOfPeak(const TrainingJob& job, const Verdict& verdict) {
  using Phase = Component::Phase;
  // A peak that was measured does not say what part of it the components of LAYERS are.
  const bool is_measured = verdict.plan == nullptr && job.plain_peak_bytes.has_value();
  Phase there = Phase::kLayers;
  if (verdict.peak_outside_layers) there = HighestOutside(job);
  std::vector<Component> parts;
  int64_t rest = verdict.peak_bytes;
  for (const Component& component : job.components) {
    const bool is_there = component.phase == there && !(is_measured && there == Phase::kLayers);
    if (component.phase != Phase::kStep && !is_there) continue;
    parts.push_back({component.name, component.BytesOnDevice(), component.phase});
    rest -= component.BytesOnDevice();
  }
  if (rest > 0) parts.push_back({"layers", rest, Phase::kLayers});
  return parts;
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
