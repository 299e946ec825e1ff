// Waiters for tests of what a solve does with them.
#ifndef STOWAGE_TESTS_UNIT_SERVER_ENGINE_NEW_WAITER_H_
#define STOWAGE_TESTS_UNIT_SERVER_ENGINE_NEW_WAITER_H_

#include <memory>
#include <utility>

#include "server/cache/cache_keys.h"
#include "server/engine/solves/waiter.h"
#include "solver/model/instance.h"
#include "tests/unit/server/engine/engine_fixture.h"

namespace stowage {

inline KeyedRequestPtr Keyed(SolveRequest request) {
  auto rounded = std::make_shared<const Instance>(Instance::Rounded(request));
  const CacheKeys keys = CacheKeysOf(request, *rounded);
  return std::make_shared<const KeyedRequest>(
      KeyedRequest{std::move(request), std::move(rounded), keys});
}

// One that has joined no solve yet, and its listener.
struct NewWaiter {
  explicit NewWaiter(SolveRequest request, Caller caller = {},
                     Timers::Clock::time_point due = Timers::Clock::time_point::max())
      : waiter(std::make_shared<Waiter>(Keyed(std::move(request)), std::move(caller), listener,
                                        Timers::Clock::now(), due)) {}

  ListenerPtr listener = std::make_shared<RecordingListener>();
  WaiterPtr waiter;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_UNIT_SERVER_ENGINE_NEW_WAITER_H_
