// One solve and all who wait for it: identical questions in flight are solved once.
#ifndef STOWAGE_SERVER_ENGINE_SHARED_SOLVE_H_
#define STOWAGE_SERVER_ENGINE_SHARED_SOLVE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "server/cache/cache_keys.h"
#include "server/engine/timers.h"
#include "solver/base/mutex.h"
#include "solver/model/answer.h"
#include "solver/model/request.h"

namespace stowage {

// Where an answer came from.
enum class Source { kSolved, kMemoryCache, kDiskCache, kCoalesced };

// What a question led to, and how long that took.
struct Solved {
  std::shared_ptr<const Answer> answer;
  double queue_seconds = 0;
  double solve_seconds = 0;
  Source source = Source::kSolved;
  Fingerprint fingerprint;
};

// What a caller hears of its question. Calls come from several threads, and one that is on its way
// when Done() is called may come after it.
class SolveListener {
 public:
  virtual ~SolveListener() = default;
  virtual void Queued(size_t /*before*/) {}                                // so many wait before it
  virtual void Running(double /*fraction*/) {}                             // done, 0..1
  virtual void Improved(const std::shared_ptr<const Answer>& /*best*/) {}  // the best so far
  virtual void Done(absl::StatusOr<Solved> result) = 0;                    // exactly once
};

// Who asks, and until when.
struct Caller {
  std::string client = {};  // whose share of the queue it takes
  Timers::Clock::time_point deadline = Timers::Clock::time_point::max();
  std::stop_token stop = {};  // set when it has left
};

// One caller and its question.
struct Waiter {
  Waiter(SolveRequest asked, const QuestionKeys& its_keys, Caller who,
         std::shared_ptr<SolveListener> hears, Timers::Clock::time_point when)
      : request(std::move(asked)),
        keys(its_keys),
        caller(std::move(who)),
        listener(std::move(hears)),
        arrived(when) {}

  const SolveRequest request;
  const QuestionKeys keys;
  const Caller caller;
  const std::shared_ptr<SolveListener> listener;
  const Timers::Clock::time_point arrived;

  // Set before others see it.
  Source source = Source::kSolved;  // what its answer will be
  uint64_t id = 0;                  // in the solve that it joined

  // Of whoever watches its stop token; nobody else touches it.
  std::optional<std::stop_callback<std::function<void()>>> on_stop;

  Mutex mutex;
  bool ended ABSL_GUARDED_BY(mutex) = false;
  Timers::Id timer ABSL_GUARDED_BY(mutex) = {};
};
using WaiterPtr = std::shared_ptr<Waiter>;

// Whoever takes a waiter out calls its listener's Done(). Thread-safe.
class SharedSolve {
 public:
  // The question is the first waiter's.
  explicit SharedSolve(const Waiter& first);

  const SolveRequest& request() const { return request_; }
  const QuestionKeys& keys() const { return keys_; }
  const std::string& client() const { return client_; }
  // Set when the last waiter has left.
  std::stop_token stop_token() const { return stop_.get_token(); }

  // False: it is over, or nobody waited for it any more.
  bool Join(const WaiterPtr& waiter);
  // Null: it is not there any more. The last to leave stops the solve.
  WaiterPtr Leave(uint64_t id);
  // The same, with the best answer so far. Null as long as there is none: then the waiter is one of
  // those whom the next one is for.
  WaiterPtr LeaveWithBest(uint64_t id, std::shared_ptr<const Answer>* best);

  void Queued(size_t before);
  void Started();
  void Progressed(double fraction);
  // Returns those who have waited long enough.
  std::vector<WaiterPtr> Improved(std::shared_ptr<const Answer> best);
  // Returns all who still wait; nobody joins from then on.
  std::vector<WaiterPtr> End();

  std::shared_ptr<const Answer> best() const;
  // When it began to run; nullopt: it has not.
  std::optional<Timers::Clock::time_point> started() const;

 private:
  struct Place {
    WaiterPtr waiter;
    bool is_late = false;  // the next answer will do
  };
  std::vector<std::shared_ptr<SolveListener>> Listeners() const;
  WaiterPtr Remove(std::vector<Place>::iterator place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Place>::iterator Find(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SolveRequest request_;
  const QuestionKeys keys_;
  const std::string client_;
  std::stop_source stop_;
  mutable Mutex mutex_;
  std::vector<Place> places_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::shared_ptr<const Answer> best_ ABSL_GUARDED_BY(mutex_);
  std::optional<Timers::Clock::time_point> started_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SHARED_SOLVE_H_
