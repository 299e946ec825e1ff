// The proxies that are trusted at the moment: a reload replaces them while calls are served.
#ifndef STOWAGE_SERVER_RPC_CALLERS_CURRENT_PROXIES_H_
#define STOWAGE_SERVER_RPC_CALLERS_CURRENT_PROXIES_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "server/rpc/callers/caller_address.h"
#include "solver/base/mutex.h"

namespace stowage {

// Thread-safe.
class CurrentProxies {
 public:
  explicit CurrentProxies(TrustedProxies proxies) { Set(std::move(proxies)); }

  void Set(TrustedProxies proxies) {
    auto replacement = std::make_shared<const TrustedProxies>(std::move(proxies));
    MutexLock lock(mutex_);
    proxies_ = std::move(replacement);
  }
  // Never null.
  std::shared_ptr<const TrustedProxies> Get() const {
    MutexLock lock(mutex_);
    return proxies_;
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const TrustedProxies> proxies_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_CALLERS_CURRENT_PROXIES_H_
