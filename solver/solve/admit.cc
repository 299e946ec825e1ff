#include "solver/solve/admit.h"

#include <algorithm>
#include <cstdint>
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

// What a micro-batch leaves between its forward and its backward, with all layers kept.
int64_t KeptBytes(const Chain& chain) {
  int64_t kept = chain.input_bytes;
  for (int l = 1; l <= chain.length() + 1; ++l) kept += chain.stage(l).saved_bytes;
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

// What the other micro-batches in flight keep. At most 2^62, which fits no device, as all below.
int64_t KeptByOthers(const TrainingJob& job, int64_t kept) {
  return std::min(kMaxTotalBytes, SaturatingMultiply(InFlight(job) - 1, kept));
}

int64_t Sum(int64_t a, int64_t b) { return CheckedAdd(a, b).value_or(INT64_MAX); }

// What each micro-batch in flight may take, so that all fit, whatever the others keep; negative:
// none may take anything.
int64_t ShareOf(const TrainingJob& job, int64_t memory) {
  const BesideChain beside = BesideChainOf(job);
  if (memory < std::max({beside.layers, beside.update, beside.around})) return -1;
  const int64_t share = (memory - beside.layers) / InFlight(job);
  if (InFlight(job) == 1) return share;
  return std::min(share, (memory - beside.around) / (InFlight(job) - 1));
}

// The least memory with which the share is so large.
int64_t EnoughFor(const TrainingJob& job, int64_t share) {
  const BesideChain beside = BesideChainOf(job);
  const int64_t others = KeptByOthers(job, share);
  return std::max(
      {Sum(Sum(beside.layers, share), others), Sum(beside.around, others), beside.update});
}

Platform PlatformOfPlan(const AdmitRequest& request, size_t device) {
  Platform share = request.devices[device].platform;
  share.memory_bytes = std::max<int64_t>(0, ShareOf(request.job, share.memory_bytes));
  if (share.host_memory_bytes > 0) {
    // 0 is no limit.
    share.host_memory_bytes = std::max<int64_t>(1, share.host_memory_bytes / InFlight(request.job));
  }
  return share;
}

// Where a micro-batch takes, with what is beside the layers, so much at its highest, and others
// keep so much.
Verdict WithPeak(const AdmitRequest& request, size_t device, Verdict::Fit fit, int64_t micro_batch,
                 int64_t kept) {
  const BesideChain beside = BesideChainOf(request.job);
  const int64_t others = KeptByOthers(request.job, kept);
  const int64_t layers = Sum(micro_batch, others);
  const int64_t outside = std::max(Sum(beside.around, others), beside.update);
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
  return WithPeak(request, device, fit, step + peak, KeptBytes(job.chain));
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
  const TrainingJob& job = request.job;
  const bool has_schedule = answer->outcome != Outcome::kInfeasible;
  if (has_schedule && ShareOf(job, request.devices[device].platform.memory_bytes) >= 0) {
    const Platform share = PlatformOfPlan(request, device);
    const int64_t kept = InFlight(job) == 1 ? 0 : KeptBytes(job.chain, share, answer->schedule);
    const int64_t micro_batch = BesideChainOf(job).layers + answer->prediction.peak_memory_bytes;
    Verdict verdict = WithPeak(request, device, Verdict::Fit::kFitsWithPlan, micro_batch, kept);
    verdict.platform = share;
    verdict.plan = std::move(answer);
    return verdict;
  }
  Verdict verdict = PlainVerdict(request, device, Verdict::Fit::kDoesNotFit);
  std::optional<int64_t> least = answer->minimum_memory_bytes;
  if (has_schedule) least = answer->prediction.peak_memory_bytes;  // for what is left, or nothing
  if (least.has_value()) {
    verdict.minimum_memory_bytes = std::min(EnoughFor(job, *least), verdict.peak_bytes);
  }
  return verdict;
}

std::vector<Component> PartsOfPeak(const TrainingJob& job, const Verdict& verdict) {
  using Phase = Component::Phase;
  // A peak that was measured does not say what part of it the components of LAYERS are.
  const bool is_measured = verdict.plan == nullptr && job.plain_peak_bytes.has_value();
  Phase there = Phase::kLayers;
  if (verdict.peak_outside_layers) {
    const bool is_update = verdict.peak_bytes == BesideChainOf(job).update;
    there = is_update ? Phase::kUpdate : Phase::kAround;  // beside what micro-batches keep
  }
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
