// Known answers as they go over the wire, for those who ask in the same words again: the ranks of a
// job that starts, and the job when it starts again. Reading a chain of a hundred stages and
// writing its schedule takes several times as long as all else that a known answer needs.
#ifndef STOWAGE_SERVER_RPC_REPLIES_H_
#define STOWAGE_SERVER_RPC_REPLIES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "server/cache/cache_tier.h"
#include "server/cache/lru.h"
#include "server/engine/engine.h"
#include "server/observe/observer.h"

namespace stowage {

// The bytes of a SolveRequest without the chain's provenance, which no answer depends on, and which
// holds maps: equal ones are written in any order. Different requests have different words. Empty:
// the bytes are no message.
std::string WordsOf(const grpc::Slice& request);

struct Reply {
  std::string words;           // all of them; a hash alone could be forged
  SolveRequest question;       // what is in it
  Schedule schedule;           // of the answer; simulated again before it leaves
  bool is_infeasible = false;  // then there is none
  grpc::ByteBuffer response;
  CallRecord record;  // without what is a single call's
};
using ReplyPtr = std::shared_ptr<const Reply>;

// Thread-safe.
class Replies {
 public:
  explicit Replies(int64_t most_bytes) : replies_(most_bytes) {}

  // Null where these words are not known, or the schedule does not fit the question.
  ReplyPtr Get(const std::string& words);
  void Put(Reply reply);

  CacheTierStats stats() const;

 private:
  Lru<absl::string_view, Reply> replies_;  // keys lie in the values
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_REPLIES_H_
