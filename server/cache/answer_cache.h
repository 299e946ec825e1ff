// What is known already: the cache in memory, the store behind it, and what of them answers a
// question.
#ifndef STOWAGE_SERVER_CACHE_ANSWER_CACHE_H_
#define STOWAGE_SERVER_CACHE_ANSWER_CACHE_H_

#include <cstdint>
#include <memory>

#include "server/cache/cache_keys.h"
#include "server/cache/cache_tier.h"
#include "server/cache/memory_tier.h"
#include "server/observe/observer.h"
#include "solver/model/answer.h"
#include "solver/model/request.h"

namespace stowage {

using AnswerPtr = std::shared_ptr<const Answer>;

// `known` as an answer to a question, simulated on its own chain; null: it is none, or memory ran
// out. A question to the bit as the known one gets what was said to that.
AnswerPtr AnswerWith(const SolveRequest& request, const QuestionKeys& keys,
                     const KnownAnswerPtr& known);

// The same of the best schedule so far for a question with `best_keys`, which nobody compares with
// finer grids.
AnswerPtr AnswerWithBest(const SolveRequest& request, const QuestionKeys& keys, const Answer& best,
                         const QuestionKeys& best_keys);

// Thread-safe. What goes wrong with the store is told to the observer and never an error.
class KnownAnswers {
 public:
  // `store` keeps answers beyond this process; null: none. Borrows both.
  KnownAnswers(int64_t memory_bytes, CacheTier* store, Observer& observer)
      : memory_(memory_bytes), store_(store), observer_(observer) {}

  // Null: none that answers the question.
  AnswerPtr FromMemory(const SolveRequest& request, const QuestionKeys& keys);
  // The same from the store, with all that is to be said of it. Blocks on the disk.
  KnownAnswerPtr FromStore(const SolveRequest& request, const QuestionKeys& keys);

  void KeepInMemory(const KnownAnswerPtr& known);
  bool has_store() const { return store_ != nullptr; }
  // Blocks on the disk. Requires: has_store().
  void KeepInStore(const KnownAnswerPtr& known);

  CacheTierStats memory_stats() const { return memory_.stats(); }

 private:
  KnownAnswerPtr ReadStore(const Fingerprint& key);

  MemoryTier memory_;
  CacheTier* const store_;
  Observer& observer_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_ANSWER_CACHE_H_
