// One connection to a Redis node. Its source and reply.cc are the only users of sockets here.
#ifndef STOWAGE_SERVER_REDIS_CONNECTION_H_
#define STOWAGE_SERVER_REDIS_CONNECTION_H_

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/net/stream.h"
#include "server/redis/redis_url.h"
#include "server/redis/reply.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace stowage {

// How a connection begins.
struct RedisLogin {
  std::string user = {};                 // empty: the default user
  std::string password = {};             // empty: no AUTH is sent
  std::shared_ptr<ssl_ctx_st> tls = {};  // null: the connection is not encrypted
};

// Blocks until a deadline at most, except for the resolution of a host's name. After an error the
// connection is of no more use. One thread at a time.
class RedisConnection {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  using Arguments = std::vector<absl::string_view>;

  // Connects, and logs in where `login` has a password. Errors, all with the node's address:
  // UNAVAILABLE; DEADLINE_EXCEEDED; PERMISSION_DENIED with what the node says of the password.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> Connect(const RedisNode& node,
                                                                  const RedisLogin& login,
                                                                  Deadline deadline);

  // Sends a command and waits for its reply, which may be an error reply. Errors: UNAVAILABLE,
  // DEADLINE_EXCEEDED, DATA_LOSS.
  absl::StatusOr<RedisReply> Call(const Arguments& arguments, Deadline deadline);

  const RedisNode& node() const { return node_; }

 private:
  explicit RedisConnection(RedisNode node) : node_(std::move(node)) {}

  absl::Status Write(absl::string_view bytes, Deadline deadline);
  absl::StatusOr<RedisReply> Read(Deadline deadline);
  absl::Status Await(short events, Deadline deadline);
  absl::Status Closed() const;
  absl::Status Annotated(const absl::Status& status) const;

  const RedisNode node_;
  std::string tls_error_;           // why the handshake failed
  std::unique_ptr<Stream> stream_;  // set by Connect()
  ReplyReader reader_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_REDIS_CONNECTION_H_
