#include "server/engine/solves/reuse.h"

#include <cassert>
#include <memory>
#include <optional>
#include <utility>

#include "solver/base/out_of_memory.h"
#include "solver/bounds/lower_bound.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/checked_answer.h"

namespace stowage {
namespace {

// An answer and the keys of the request that it was solved for.
struct Earlier {
  const Answer& answer;
  const CacheKeys& keys;
};

// The earlier answer to another request of the same rounded instance for this one, with prediction
// and explanation from a simulation of its schedule on the request's own chain; null: it does not
// fit there. That a budget is infeasible holds for equal sizes only.
AnswerPtr Reuse(const KeyedRequest& keyed, const Earlier& earlier) {
  const bool same_sizes = earlier.keys.exact_sizes == keyed.keys.exact_sizes;
  if (earlier.answer.outcome == Outcome::kInfeasible && !same_sizes) return nullptr;
  std::optional<Answer> answer = ReuseAnswer(keyed.request, keyed.units(), earlier.answer);
  if (!answer.has_value()) return nullptr;
  // Sizes that differ by less than a granule may need a little more, or less.
  if (!same_sizes) answer->minimum_memory_bytes.reset();
  return std::make_shared<const Answer>(*std::move(answer));
}

// What the notes say of a tier's answer that the lower bound does not prove optimal.
constexpr const char* kNotProvedAgain =
    "kept from an earlier solve: its schedule was checked again, not whether a faster one exists";

bool Fits(const KeyedRequest& keyed, const Answer& answer) {
  if (answer.outcome == Outcome::kInfeasible) return true;
  const absl::StatusOr<Simulation> simulation =
      Simulate(keyed.request.chain, keyed.units(), keyed.request.platform, answer.schedule);
  return simulation.ok() && simulation->feasible();
}

// What a tier kept, as an answer to the request; nullopt: it shows none.
std::optional<Answer> AnswerFromTier(const KeyedRequest& keyed, const Answer& kept) {
  std::optional<Answer> answer =
      AnswerWithSchedule(keyed.request, keyed.units(), kept.schedule, kept.solver);
  if (!answer.has_value()) return std::nullopt;
  answer->from_exact_sizes = kept.from_exact_sizes;
  if (answer->outcome != Outcome::kOptimal) answer->explanation.notes.push_back(kNotProvedAgain);
  return answer;
}

}  // namespace

AnswerPtr AnswerFromCached(const KeyedRequest& keyed, const CachedAnswerPtr& cached) {
  return UnlessOutOfMemory(
      [&]() -> AnswerPtr {
        if (cached->keys.exact != keyed.keys.exact) {
          // The rounding loss is a figure of the earlier request's own times.
          if (keyed.request.options.report_rounding_loss) return nullptr;
          return Reuse(keyed, {cached->answer, cached->keys});
        }
        // Prediction and explanation are this request's. The schedule is simulated all the same: no
        // schedule leaves the server unchecked.
        assert(cached->is_explained);
        return Fits(keyed, cached->answer) ? AnswerPtr(cached, &cached->answer) : nullptr;
      },
      nullptr);
}

// Without a rounding loss: there is no time for it.
AnswerPtr AnswerFromBest(const KeyedRequest& keyed, const Answer& best,
                         const CacheKeys& best_keys) {
  return UnlessOutOfMemory([&] { return Reuse(keyed, {best, best_keys}); }, nullptr);
}

AnswerPtr FindInMemory(AnswerCache& cache, const KeyedRequest& keyed) {
  return cache.FindInMemory(
      keyed.keys, [&](const CachedAnswerPtr& cached) { return AnswerFromCached(keyed, cached); });
}

// The result carries the keys of this request, for which it was simulated, and is ready for memory.
TierHit FindInTiers(AnswerCache& cache, const KeyedRequest& keyed, const std::string& client) {
  if (keyed.request.options.report_rounding_loss) return {};
  return cache.FindInTiers(keyed.keys, [&](const Answer& kept) -> CachedAnswerPtr {
    std::optional<Answer> answer = AnswerFromTier(keyed, kept);
    if (!answer.has_value()) return nullptr;
    return std::make_shared<const CachedAnswer>(
        CachedAnswer{*std::move(answer), keyed.keys, client, /*is_explained=*/true});
  });
}

CachedAnswerPtr WithCloserBound(const SolveRequest& request, const CachedAnswer& from_tier,
                                const std::stop_token& stop) {
  return UnlessOutOfMemory(
      [&]() -> CachedAnswerPtr {
        auto closer = std::make_shared<CachedAnswer>(from_tier);
        Answer& answer = closer->answer;
        RaiseBound(request.chain, request.platform, &answer.prediction, BoundTime::kShort, stop);
        if (stop.stop_requested()) return nullptr;
        if (MeetsBound(answer.prediction)) {
          answer.outcome = Outcome::kOptimal;
          answer.guarantee = Guarantee::kOptimal;
          std::erase(answer.explanation.notes, kNotProvedAgain);
        }
        return closer;
      },
      nullptr);
}

}  // namespace stowage
