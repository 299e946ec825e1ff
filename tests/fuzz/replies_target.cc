// Replies of Redis, as they come over a connection: the first two bytes are lengths, of the pieces
// in which the others are read in turn. They are read as if they came at once.
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/redis/cluster.h"
#include "server/redis/reply.h"
#include "tests/fuzz/targets.h"

namespace stowage {
namespace {

using Type = RedisReply::Type;

struct WhatWasRead {
  std::vector<RedisReply> replies;
  bool is_damaged = false;  // after those replies
  bool has_more = false;    // bytes after the last of them
};

// Requires: the lengths are positive.
WhatWasRead ReadInPieces(absl::string_view bytes, size_t length, size_t next_length) {
  WhatWasRead read;
  ReplyReader reader;
  while (!bytes.empty() && !read.is_damaged) {
    const absl::string_view piece = bytes.substr(0, length);
    bytes.remove_prefix(piece.size());
    std::swap(length, next_length);
    if (!reader.Feed(piece).ok()) read.is_damaged = true;
    while (!read.is_damaged) {
      absl::StatusOr<std::optional<RedisReply>> next = reader.Next();
      read.is_damaged = !next.ok();
      if (!next.ok() || !next->has_value()) break;
      read.replies.push_back(**std::move(next));
      read.has_more = reader.has_more();
    }
  }
  return read;
}

std::string TextOf(const RedisReply& reply) {
  return absl::StrCat(static_cast<int>(reply.type), " ", reply.integer, " ",
                      absl::CHexEscape(reply.text), " [",
                      absl::StrJoin(reply.elements, ",",
                                    [](std::string* out, const RedisReply& element) {
                                      absl::StrAppend(out, TextOf(element));
                                    }),
                      "]");
}

size_t ElementsOf(const RedisReply& reply) {
  size_t count = reply.elements.size();
  for (const RedisReply& element : reply.elements) count += ElementsOf(element);
  return count;
}

void RequireSound(const RedisReply& reply) {
  Require(ElementsOf(reply) <= ReplyReader::kMaxElements, "a reply of too many elements");
  const absl::string_view code = reply.error_code();
  Require(reply.is_error() || code.empty(), "what is no error has a code");
  Require(code.find(' ') == absl::string_view::npos, "a code of several words");
  const int slot = SlotOf(reply.text);
  Require(slot >= 0 && slot < 16'384, "a key in a slot that there is not");
}

// A command of ours, which is an array of strings, is read as it was meant.
void RequireSentAsMeant(const RedisReply& reply) {
  std::vector<absl::string_view> arguments;
  for (const RedisReply& element : reply.elements) arguments.push_back(element.text);
  const std::string command = FormatCommand(arguments);
  const WhatWasRead read = ReadInPieces(command, command.size(), 1);
  Require(read.replies.size() == 1 && !read.is_damaged && !read.has_more, "no command");
  Require(read.replies[0].elements.size() == arguments.size(), "another number of arguments");
  for (size_t i = 0; i < arguments.size(); ++i) {
    Require(read.replies[0].elements[i].text == arguments[i], "another argument");
  }
}

}  // namespace

void FuzzReplies(absl::string_view bytes) {
  if (bytes.size() < 3) return;
  const size_t length = 1 + static_cast<unsigned char>(bytes[0]);
  const size_t next_length = 1 + static_cast<unsigned char>(bytes[1]);
  bytes.remove_prefix(2);
  const WhatWasRead at_once = ReadInPieces(bytes, bytes.size(), 1);
  const WhatWasRead in_pieces = ReadInPieces(bytes, length, next_length);
  Require(at_once.is_damaged == in_pieces.is_damaged, "damage that depends on the pieces");
  Require(at_once.replies.size() == in_pieces.replies.size(), "another number of replies");
  for (size_t i = 0; i < at_once.replies.size(); ++i) {
    const RedisReply& reply = at_once.replies[i];
    Require(TextOf(reply) == TextOf(in_pieces.replies[i]), "a reply that depends on the pieces");
    RequireSound(reply);
    if (reply.type == Type::kArray) RequireSentAsMeant(reply);
  }
}

std::vector<std::string> RepliesSeeds() {
  // A value and its checksum, a value that is not there, what scripts return.
  const std::string values =
      "*2\r\n$5\r\na\r\n\xff\x01\r\n$16\r\n0123456789abcdef\r\n"
      "*2\r\n$-1\r\n$-1\r\n:1\r\n:-9\r\n+OK\r\n";
  // CLUSTER SLOTS, with a replica and a node without a name.
  const std::string slots =
      "*2\r\n*4\r\n:0\r\n:8191\r\n*3\r\n$9\r\n127.0.0.1\r\n:7000\r\n$4\r\nabcd\r\n"
      "*2\r\n$0\r\n\r\n:7003\r\n*3\r\n:8192\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:7001\r\n";
  const std::string replies[] = {
      values,
      slots,
      "-MOVED 3999 127.0.0.1:6381\r\n-ASK 3999 :6381\r\n-NOSCRIPT No matching script.\r\n",
      "-LOADING Redis is loading the dataset in memory\r\n-CLUSTERDOWN The cluster is down\r\n",
      "*0\r\n*-1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:7\r\n$0\r\n\r\n*100001\r\n",
      "HTTP/1.1 400 Bad Request\r\n\r\n",
  };
  std::vector<std::string> seeds;
  for (const char* lengths : {"\1\1", "\6\200", "\377\2"}) {
    for (const std::string& reply : replies) seeds.push_back(absl::StrCat(lengths, reply));
  }
  return seeds;
}

}  // namespace stowage
