// Logs what is unsafe about the options and files of a server.
#ifndef STOWAGE_SERVER_UNSAFE_LOG_H_
#define STOWAGE_SERVER_UNSAFE_LOG_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "server/rpc/callers/current_proxies.h"
#include "server/security/file_permissions.h"
#include "server/security/security.h"
#include "server/server_options.h"
#include "solver/base/mutex.h"

namespace stowage {

// Thread-safe.
class UnsafeLog {
 public:
  // Borrows all three; a reload replaces the proxies, and leaves the options as they were.
  UnsafeLog(const ServerOptions& options, const CurrentProxies& proxies, const Security& security)
      : options_(options), proxies_(proxies), security_(security) {}

  // Logs what has not been logged since it became so: an address that others can reach without TLS
  // or credentials, permissions of files.
  void LogNew();

 private:
  std::vector<SecurityWarning> Warnings() const;

  const ServerOptions& options_;
  const CurrentProxies& proxies_;
  const Security& security_;
  Mutex mutex_;
  std::vector<SecurityWarning> logged_ ABSL_GUARDED_BY(mutex_);  // those of the last time
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_UNSAFE_LOG_H_
