// Replies of Redis (RESP2), read from the bytes of a connection by hiredis.
#ifndef STOWAGE_SERVER_REDIS_REPLY_H_
#define STOWAGE_SERVER_REDIS_REPLY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct redisReader;

namespace stowage {

struct RedisReply {
  enum class Type { kNil, kInteger, kString, kStatus, kError, kArray };

  Type type = Type::kNil;
  int64_t integer = 0;
  std::string text = {};                  // of strings, statuses and errors
  std::vector<RedisReply> elements = {};  // of arrays

  bool is_nil() const { return type == Type::kNil; }
  bool is_error() const { return type == Type::kError; }
  // The first word of an error, which says of what kind it is: "MOVED", "NOSCRIPT"; else empty.
  absl::string_view error_code() const;
};

// Reads what it is fed, which is not trusted. One thread at a time.
class ReplyReader {
 public:
  static constexpr size_t kMaxBytes = size_t{64} << 20;  // of a reply
  static constexpr size_t kMaxElements = 100'000;        // of a reply, those of its arrays included

  ReplyReader();
  ~ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  // The next bytes. Errors, after which the reader is of no more use: DATA_LOSS for what no Redis
  // sends, or what is larger than the limits.
  absl::Status Feed(absl::string_view bytes);
  // The next complete reply; nullopt: it needs more bytes. Errors: as Feed().
  absl::StatusOr<std::optional<RedisReply>> Next();
  // Whether it has bytes that are not of a reply of Next(). Requires: Next() returned a reply.
  bool has_more() const { return bytes_ > 0; }

 private:
  struct Free {
    void operator()(redisReader* reader) const;
  };
  std::unique_ptr<redisReader, Free> reader_;
  size_t elements_ = 0;  // of the reply that is being read
  size_t bytes_ = 0;     // fed since the last complete reply
};

// A command as Redis reads it.
std::string FormatCommand(const std::vector<absl::string_view>& arguments);

}  // namespace stowage

#endif  // STOWAGE_SERVER_REDIS_REPLY_H_
