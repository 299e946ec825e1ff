#include "solver/algorithms/auto/incumbent.h"

#include <algorithm>
#include <cassert>
#include <climits>
#include <cmath>
#include <utility>

#include "solver/algorithms/pofo/local_search.h"
#include "solver/algorithms/pofo/part_sequences.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/short_program_search.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

constexpr size_t kMaxOthers = 2;  // starts of the local search besides the candidate
constexpr int kShortChain = 40;
// The local search of longer chains only takes what gains at once.
constexpr int kLongChain = 120;

// ImproveOptions::effort: half a second at most.
int64_t EffortFor(const Chain& chain) {
  constexpr int64_t kPerStage = 400'000;
  constexpr int64_t kMax = 8'000'000;
  constexpr int64_t kLong = 3'000'000;
  if (chain.length() > kLongChain) return kLong;
  return std::clamp<int64_t>(kPerStage * chain.length(), 300'000, kMax);
}

int RoundsFor(const Chain& chain) { return chain.length() <= kLongChain ? 24 : 2; }

// ImproveOptions::temperature. The longer the chain, the less a single move changes.
double TemperatureFor(const Chain& chain) {
  constexpr double kMax = 4e-3;
  if (chain.length() > kLongChain) return 1e-5;
  return kMax * std::pow(std::min(1.0, kShortChain / std::max(1.0, 1.0 * chain.length())), 1.5);
}

// What parts the local search may use. No faster schedule recomputes for longer than the schedule
// that it starts from, of `seconds`, loses in total.
PartSequences::Options LocalSearchOptions(const Chain& chain, int64_t memory_bytes,
                                          double seconds) {
  constexpr int kStepsPerPart = 12;
  const int max_stages = chain.length() <= kLongChain ? INT_MAX : chain.length() <= 1000 ? 48 : 16;
  return {.memory_bytes = memory_bytes,
          .max_recompute_seconds = seconds - ComputeSeconds(chain),
          .max_steps_per_part = kStepsPerPart,
          .max_stages = max_stages};
}

}  // namespace

bool Incumbent::Consider(Candidate candidate, const SolveContext& context) {
  if (candidate.schedule.operations.size() > kMaxOperations) return false;
  const absl::StatusOr<Simulation> simulation =
      Simulate(instance_.chain(), instance_.platform(), candidate.schedule);
  assert(simulation.ok());
  if (!simulation.ok() || !simulation->feasible()) return false;
  const Prediction& prediction = simulation->prediction;
  if (prediction.peak_memory_bytes > memory_bytes_) return false;
  // A guarantee for one choice of modes holds for all only if no mode can be faster.
  if (scope_ == GuaranteeScope::kOneChoiceOfModes &&
      (candidate.guarantee != Guarantee::kOptimal ||
       prediction.makespan_seconds > ComputeSeconds(instance_.chain(), instance_.units()))) {
    candidate.guarantee = Guarantee::kHeuristic;
  }
  const std::tuple key(prediction.makespan_seconds, candidate.guarantee != Guarantee::kOptimal,
                       prediction.peak_memory_bytes);
  if (found() && key_ <= key) {
    KeepOther(prediction.makespan_seconds, std::move(candidate.schedule));
    return false;
  }
  const bool faster = !found() || prediction.makespan_seconds < seconds();
  const double seconds_before = found() ? seconds() : 0;
  key_ = key;
  std::optional<Candidate> before = std::exchange(candidate_, std::move(candidate));
  if (before.has_value()) KeepOther(seconds_before, std::move(before->schedule));
  if (faster && context.improved) context.improved(*candidate_);
  return true;
}

void Incumbent::KeepOther(double seconds, Schedule schedule) {
  const auto at =
      std::lower_bound(others_.begin(), others_.end(), seconds,
                       [](const auto& other, double value) { return other.first < value; });
  const bool known = at != others_.end() && at->first == seconds;
  if (known || seconds == this->seconds()) return;
  others_.insert(at, {seconds, std::move(schedule)});
  if (others_.size() > kMaxOthers) others_.pop_back();
}

absl::Status Incumbent::Consider(const Solution& solution, const SolveContext& context) {
  SolveContext quiet = context;
  quiet.progress = nullptr;
  quiet.improved = nullptr;
  ASSIGN_OR_RETURN(std::optional<Candidate> candidate,
                   solution.ScheduleWithin(memory_bytes_, quiet));
  if (candidate.has_value()) Consider(*std::move(candidate), context);
  return absl::OkStatus();
}

absl::Status Incumbent::Improve(int64_t spare_bytes, const SolveContext& context) {
  const Schedule from = candidate_->schedule;
  std::vector<Schedule> others;
  for (const auto& [seconds, schedule] : others_) others.push_back(schedule);
  return Search(from, others, EffortFor(instance_.chain()), spare_bytes, context);
}

absl::Status Incumbent::StartFrom(const Schedule& hint, int64_t spare_bytes,
                                  const SolveContext& context) {
  constexpr int kShare = 5;  // of Improve()'s effort
  return Search(hint, {}, EffortFor(instance_.chain()) / kShare, spare_bytes, context);
}

absl::Status Incumbent::Search(const Schedule& from, std::span<const Schedule> others,
                               int64_t effort, int64_t spare_bytes, const SolveContext& context) {
  const Chain& chain = instance_.chain();
  // Before a schedule is found, recomputing everything twice is the limit.
  const double max_seconds = found() ? seconds() : 3 * ComputeSeconds(chain, instance_.units());
  std::optional<PartSequences> sequences;
  if (ImproveBytes(chain) <= spare_bytes) {
    ASSIGN_OR_RETURN(sequences,
                     PartSequences::Build(
                         chain, LocalSearchOptions(chain, memory_bytes_, max_seconds), context));
  }
  ASSIGN_OR_RETURN(std::optional<Schedule> better,
                   stowage::Improve(chain, instance_.platform(), from,
                                    {.memory_bytes = memory_bytes_,
                                     .effort = effort,
                                     .rounds = RoundsFor(chain),
                                     .temperature = TemperatureFor(chain),
                                     .others = others,
                                     .sequences = sequences.has_value() ? &*sequences : nullptr},
                                    context));
  if (better.has_value())
    Consider({*std::move(better), "auto", Guarantee::kHeuristic, {}}, context);
  return absl::OkStatus();
}

// Of a chain with a link the bound would take longer than the search.
bool Incumbent::MeetsBoundWithoutLink(const std::stop_token& stop) const {
  Platform platform = instance_.platform();
  if (platform.has_link()) return false;
  platform.memory_bytes = memory_bytes_;
  Prediction prediction;
  prediction.makespan_seconds = seconds();
  prediction.peak_memory_bytes = std::get<2>(key_);
  FillBound(instance_.chain(), instance_.units(), platform, &prediction);
  RaiseBound(instance_.chain(), platform, &prediction, BoundTime::kShort, stop);
  return MeetsBound(prediction);
}

absl::StatusOr<bool> Incumbent::Prove(const SolveContext& context) {
  const Chain& chain = instance_.chain();
  if (!IsSearched(chain, instance_.platform())) return false;
  if (MeetsBoundWithoutLink(context.stop)) {
    candidate_->guarantee = Guarantee::kOptimal;
    return true;
  }
  std::optional<ShortChainResult> searched =
      SearchShortProgram(chain, instance_.platform(),
                         {.memory_bytes = memory_bytes_, .below_seconds = seconds()}, context.stop);
  RETURN_IF_ERROR(context.CheckStop());
  if (!searched.has_value()) return false;
  if (searched->faster.has_value()) {
    Consider({*std::move(searched->faster), "auto", Guarantee::kOptimal, {}}, context);
  } else {
    candidate_->guarantee = Guarantee::kOptimal;
  }
  return true;
}

int64_t Incumbent::ImproveBytes(const Chain& chain) {
  return PartSequences::WorkingBytes(chain.length(), LocalSearchOptions(chain, 0, 0));
}

void Incumbent::LowerGuarantee() {
  if (!found() || candidate_->guarantee != Guarantee::kOptimal) return;
  if (instance_.platform().has_link()) {
    candidate_->guarantee = Guarantee::kHeuristic;
  } else if (seconds() > ComputeSeconds(instance_.chain(), instance_.units())) {
    candidate_->guarantee = Guarantee::kBestOfClass;
  }
}

std::optional<Candidate> Incumbent::WithNotes(const std::vector<std::string>& notes) const {
  std::optional<Candidate> candidate = candidate_;
  if (candidate.has_value()) candidate->notes = notes;
  return candidate;
}

}  // namespace stowage
