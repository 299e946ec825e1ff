// Commands to the nodes of a Redis Cluster, or to a single Redis.
#ifndef STOWAGE_SERVER_REDIS_CLUSTER_H_
#define STOWAGE_SERVER_REDIS_CLUSTER_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/redis/connection.h"
#include "server/redis/redis_url.h"
#include "server/redis/reply.h"
#include "solver/base/mutex.h"

namespace stowage {

// The hash slot of a key, 0 to 16383: CRC16 of the key, or of what the key's first {} contain.
int SlotOf(absl::string_view key);

// A script in Lua, and how Redis names it.
struct RedisScript {
  explicit RedisScript(std::string its_text);
  const std::string text;
  const std::string sha1;  // in hex
};

// Learns which node serves which slot, follows redirections, and keeps connections for reuse. A
// command is sent to the master of its key. Thread-safe; calls block until their deadline at most.
class RedisCluster {
 public:
  using Clock = std::chrono::steady_clock;
  using Arguments = RedisConnection::Arguments;

  // Called for each new connection, from any thread, so that new certificates and passwords are
  // used without a restart.
  using LoginReader = std::function<absl::StatusOr<RedisLogin>()>;

  // `seeds` as in RedisUrl. Connects to none of them yet.
  RedisCluster(std::vector<RedisNode> seeds, LoginReader login)
      : seeds_(std::move(seeds)), login_(std::move(login)) {}

  // The reply to a command on `key`, which is no error reply. Errors: UNAVAILABLE when no node
  // serves the key now, DEADLINE_EXCEEDED, PERMISSION_DENIED, DATA_LOSS for what is no reply,
  // FAILED_PRECONDITION for other errors of the command; all name the node.
  absl::StatusOr<RedisReply> Call(absl::string_view key, const Arguments& arguments,
                                  Clock::time_point deadline);

  // The same for a script; all `keys` have the slot of the first one. The script may run twice,
  // where a connection breaks before its reply arrives.
  absl::StatusOr<RedisReply> Run(const RedisScript& script,
                                 const std::vector<absl::string_view>& keys,
                                 const std::vector<absl::string_view>& arguments,
                                 Clock::time_point deadline);

  // The nodes that serve keys, and the reply of one of them to a command on no key. Errors: as of
  // Call().
  absl::StatusOr<std::vector<RedisNode>> Masters(Clock::time_point deadline);
  absl::StatusOr<RedisReply> CallNode(const RedisNode& node, const Arguments& arguments,
                                      Clock::time_point deadline);

 private:
  static constexpr int kSlots = 16'384;
  using ConnectionPtr = std::unique_ptr<RedisConnection>;
  // Of the table of slots; -1: it is not known.
  using NodeIndex = int16_t;

  absl::StatusOr<RedisReply> Send(absl::string_view key, const Arguments& arguments,
                                  Clock::time_point deadline);
  absl::StatusOr<RedisReply> SendTo(const RedisNode& node, bool is_asking,
                                    const Arguments& arguments, Clock::time_point deadline);
  absl::StatusOr<ConnectionPtr> Connect(const RedisNode& node, Clock::time_point deadline) const;
  absl::StatusOr<RedisNode> MasterOf(int slot, Clock::time_point deadline);
  absl::Status LearnSlots(Clock::time_point deadline);
  std::vector<RedisNode> NodesToAsk() const;
  bool ReadSlots(const RedisNode& asked, const RedisReply& reply);
  void Moved(int slot, const RedisNode& node);
  NodeIndex IndexOf(const RedisNode& node) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ConnectionPtr TakeIdle(const RedisNode& node);
  void GiveBack(ConnectionPtr connection);
  void Failed(const RedisNode& node);

  const std::vector<RedisNode> seeds_;
  const LoginReader login_;
  mutable Mutex mutex_;
  std::vector<RedisNode> nodes_ ABSL_GUARDED_BY(mutex_);  // masters
  std::array<NodeIndex, kSlots> masters_ ABSL_GUARDED_BY(mutex_) = Unknown();
  bool is_stale_ ABSL_GUARDED_BY(mutex_) = true;  // the slots are to be learnt again
  Clock::time_point learnt_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::min();
  std::optional<RedisNode> failed_ ABSL_GUARDED_BY(mutex_);  // the last one that did
  std::map<RedisNode, std::vector<ConnectionPtr>> idle_ ABSL_GUARDED_BY(mutex_);

  static constexpr std::array<NodeIndex, kSlots> Unknown() {
    std::array<NodeIndex, kSlots> none{};
    none.fill(-1);
    return none;
  }
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_REDIS_CLUSTER_H_
