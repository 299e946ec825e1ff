// Unary calls of Solve that wait at the same time with requests of the same text, as the ranks of a
// job do: one request is read and one response is made for all of them.
#ifndef STOWAGE_SERVER_RPC_CALLS_EQUAL_CALLS_H_
#define STOWAGE_SERVER_RPC_CALLS_EQUAL_CALLS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/cache/answer_cache.h"
#include "server/cache/cache_keys.h"
#include "server/engine/solves/waiter.h"
#include "server/rpc/messages/shared_response.h"
#include "solver/base/mutex.h"
#include "solver/model/chain_warnings.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {

// What of a response is the caller's own: a cached answer may have been solved for another request
// that rounds to the same instance.
struct CallersOwn {
  v1::Platform platform;
  std::vector<ChainWarning> warnings;
};

// What a call needs of a request once that has been read.
struct ReadOnce {
  CallersOwn own = {};
  double time_budget_seconds = 0;
  // For log and metrics.
  int stages = 0;
  std::string solver = {};
};

// The calls with one text. Thread-safe.
class EqualCalls {
 public:
  explicit EqualCalls(ReadOnce request) : request_(std::move(request)) {}
  ~EqualCalls() {
    if (forget_) forget_();
  }

  const ReadOnce& request() const { return request_; }

  // The response with that answer, made by `fill` for the first of the calls, in whose client's
  // name it waits to be read. Errors: those of SharedResponse.
  absl::StatusOr<SharedResponsePtr> ResponseWith(const AnswerPtr& answer, const std::string& client,
                                                 absl::FunctionRef<void(v1::SolveResponse*)> fill);

 private:
  friend class CallsInFlight;

  const ReadOnce request_;
  absl::AnyInvocable<void()> forget_;  // set once, by CallsInFlight
  Mutex mutex_;
  AnswerPtr answer_ ABSL_GUARDED_BY(mutex_);  // of response_
  SharedResponsePtr response_ ABSL_GUARDED_BY(mutex_);
};
using EqualCallsPtr = std::shared_ptr<EqualCalls>;

// Those that later calls may join, by the fingerprint of their text: it cannot be forged.
// Thread-safe.
class CallsInFlight {
 public:
  struct Found {
    EqualCallsPtr calls = {};
    KeyedRequestPtr keyed = {};  // that they wait with
  };
  // nullopt: none waits with that text.
  std::optional<Found> Find(const Fingerprint& text) const;
  // Until the last of the calls has ended. Once for each of `calls`.
  void Add(const Fingerprint& text, const EqualCallsPtr& calls, const KeyedRequestPtr& keyed);

 private:
  struct Entry {
    std::weak_ptr<EqualCalls> calls;
    std::weak_ptr<const KeyedRequest> keyed;
  };
  struct Table {
    Mutex mutex;
    absl::flat_hash_map<Fingerprint, Entry> entries ABSL_GUARDED_BY(mutex);
  };
  const std::shared_ptr<Table> table_ = std::make_shared<Table>();  // calls may end late
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_CALLS_EQUAL_CALLS_H_
