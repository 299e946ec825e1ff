// Something that listens where a Redis should, and answers what a test says.
#ifndef STOWAGE_TESTS_SUPPORT_FAKE_REDIS_H_
#define STOWAGE_TESTS_SUPPORT_FAKE_REDIS_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/redis/redis_url.h"
#include "solver/base/mutex.h"

namespace stowage {

// Thread-safe.
class FakeRedis {
 public:
  // The bytes that are sent for a command, called from a thread a connection; with an empty answer
  // the connection is closed.
  using Answer = std::function<std::string(const std::vector<std::string>& command)>;
  explicit FakeRedis(Answer answer);
  // Closes all connections.
  ~FakeRedis();

  RedisNode node() const { return {"127.0.0.1", port_}; }

 private:
  void Accept();
  void Serve(int fd) const;

  const Answer answer_;
  int listener_ = -1;
  int port_ = 0;
  Mutex mutex_;
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<int> connections_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  std::thread acceptor_;  // last: it uses all of the above
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_FAKE_REDIS_H_
