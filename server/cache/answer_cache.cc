#include "server/cache/answer_cache.h"

#include <new>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"

namespace stowage {
namespace {

// All that is to be said of it computed anew; nullopt: it is none.
std::optional<Answer> Fit(const SolveRequest& request, const QuestionKeys& keys,
                          const KnownAnswer& known) {
  const bool same_sizes = known.keys.sizes == keys.sizes;
  if (known.answer.outcome == Outcome::kInfeasible && !same_sizes) return std::nullopt;
  const bool same = known.keys.exact == keys.exact;
  std::optional<Answer> answer =
      AnswerFromKnown(request, known.answer, same ? KnownFor::kThisRequest : KnownFor::kOneLikeIt);
  // Sizes that differ by less than a granule may need a little more, or less.
  if (answer.has_value() && !same_sizes) answer->minimum_memory_bytes.reset();
  return answer;
}

bool Fits(const SolveRequest& request, const Answer& answer) {
  if (answer.outcome == Outcome::kInfeasible) return true;
  const absl::StatusOr<Simulation> simulation =
      Simulate(request.chain, request.platform, answer.schedule);
  return simulation.ok() && simulation->feasible();
}

// Null where `make` has none, and where memory runs out: the question is solved then.
AnswerPtr Shared(absl::FunctionRef<std::optional<Answer>()> make) {
  try {
    std::optional<Answer> answer = make();
    return answer.has_value() ? std::make_shared<const Answer>(*std::move(answer)) : nullptr;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

AnswerPtr AnswerWith(const SolveRequest& request, const QuestionKeys& keys,
                     const KnownAnswerPtr& known) {
  if (known->explained && known->keys.exact == keys.exact) {
    return Fits(request, known->answer) ? AnswerPtr(known, &known->answer) : nullptr;
  }
  return Shared([&] { return Fit(request, keys, *known); });
}

AnswerPtr AnswerWithBest(const SolveRequest& request, const QuestionKeys& keys, const Answer& best,
                         const QuestionKeys& best_keys) {
  return Shared([&] {
    SolveRequest plain = request;
    plain.options.report_rounding_loss = false;
    return Fit(plain, keys, {best, best_keys});
  });
}

AnswerPtr KnownAnswers::FromMemory(const SolveRequest& request, const QuestionKeys& keys) {
  for (const Fingerprint* key : {&keys.rounded, &keys.sizes}) {
    const absl::StatusOr<KnownAnswerPtr> known = memory_.Get(*key);
    if (!known.ok() || *known == nullptr) continue;
    if (AnswerPtr answer = AnswerWith(request, keys, *known)) return answer;
  }
  return nullptr;
}

KnownAnswerPtr KnownAnswers::ReadStore(const Fingerprint& key) {
  absl::StatusOr<KnownAnswerPtr> known = store_->Get(key);
  if (known.ok()) return *std::move(known);
  observer_.StoreFailed(known.status());
  return nullptr;
}

KnownAnswerPtr KnownAnswers::FromStore(const SolveRequest& request, const QuestionKeys& keys) {
  if (store_ == nullptr) return nullptr;
  for (const Fingerprint* key : {&keys.rounded, &keys.sizes}) {
    const KnownAnswerPtr known = ReadStore(*key);
    if (known == nullptr) continue;
    std::optional<Answer> answer = Fit(request, keys, *known);
    if (!answer.has_value()) continue;
    return std::make_shared<const KnownAnswer>(
        KnownAnswer{*std::move(answer), keys, /*explained=*/true});
  }
  return nullptr;
}

void KnownAnswers::KeepInMemory(const KnownAnswerPtr& known) {
  (void)memory_.Put(known);  // cannot fail
}

void KnownAnswers::KeepInStore(const KnownAnswerPtr& known) {
  if (const absl::Status put = store_->Put(known); !put.ok()) observer_.StoreFailed(put);
}

}  // namespace stowage
