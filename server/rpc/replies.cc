#include "server/rpc/replies.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/string_view.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "solver/simulator/simulator.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {
namespace {

namespace pb = google::protobuf;

// Numbers of the chain's fields begin behind all that a field of a request may have.
constexpr int kOfChain = 1 << 29;

// Calls `handle(number, whole, payload)` for each field of `message`; the payload is that of a
// message or a string. False: this is no message.
template <typename Handle>
bool ForEachField(absl::string_view message, Handle handle) {
  using Format = pb::internal::WireFormatLite;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(message.data());
  const auto size = static_cast<int>(message.size());
  pb::io::CodedInputStream input(bytes, size);
  const auto between = [&message](int begin, int end) {
    return message.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  };
  for (int begin = 0; begin < size; begin = input.CurrentPosition()) {
    const uint32_t tag = input.ReadTag();
    int payload = input.CurrentPosition();
    if (Format::GetTagWireType(tag) == Format::WIRETYPE_LENGTH_DELIMITED) {
      uint32_t length = 0;
      if (!input.ReadVarint32(&length)) return false;
      payload = input.CurrentPosition();
      if (length > message.size() || !input.Skip(static_cast<int>(length))) return false;
    } else if (tag == 0 || !Format::SkipField(&input, tag)) {
      return false;
    }
    handle(Format::GetTagFieldNumber(tag), between(begin, input.CurrentPosition()),
           between(payload, input.CurrentPosition()));
  }
  return true;
}

// What a reply takes in memory, about.
int64_t BytesOf(const Reply& reply) {
  constexpr size_t kBookkeeping = 1024;
  size_t bytes = kBookkeeping + sizeof(Reply) + reply.words.capacity() + reply.response.Length();
  bytes += reply.question.chain.stages.size() * sizeof(Stage);
  for (const Stage& stage : reply.question.chain.stages) bytes += stage.name.capacity();
  bytes += reply.schedule.operations.size() * sizeof(Operation);
  return static_cast<int64_t>(bytes);
}

bool Fits(const Reply& reply) {
  if (reply.is_infeasible) return true;
  const absl::StatusOr<Simulation> simulation =
      Simulate(reply.question.chain, reply.question.platform, reply.schedule);
  return simulation.ok() && simulation->feasible();
}

// A frame each, so that nothing that is in one field can pass for another.
void AppendFrame(int number, absl::string_view bytes, std::string* words) {
  const uint64_t frame[] = {static_cast<uint64_t>(number), bytes.size()};
  words->append(reinterpret_cast<const char*>(frame), sizeof(frame));
  words->append(bytes.data(), bytes.size());
}

}  // namespace

std::string WordsOf(const grpc::Slice& request) {
  std::string words;
  words.reserve(2 * request.size());
  bool is_message = true;
  const auto add_chain = [&](absl::string_view chain) {
    AppendFrame(v1::SolveRequest::kChainFieldNumber, "", &words);
    is_message &= ForEachField(chain, [&](int number, absl::string_view whole, absl::string_view) {
      if (number == v1::Chain::kProvenanceFieldNumber) return;
      AppendFrame(kOfChain + number, whole, &words);
    });
  };
  is_message &= ForEachField({reinterpret_cast<const char*>(request.begin()), request.size()},
                             [&](int number, absl::string_view whole, absl::string_view payload) {
                               const bool is_chain =
                                   number == v1::SolveRequest::kChainFieldNumber &&
                                   payload.size() < whole.size();
                               is_chain ? add_chain(payload) : AppendFrame(number, whole, &words);
                             });
  return is_message ? words : "";
}

ReplyPtr Replies::Get(const std::string& words) {
  if (words.empty()) return nullptr;
  ReplyPtr reply = replies_.Get(words);
  return reply != nullptr && Fits(*reply) ? reply : nullptr;
}

void Replies::Put(Reply reply) {
  auto shared = std::make_shared<const Reply>(std::move(reply));
  if (!shared->words.empty()) replies_.Put(shared->words, shared, BytesOf(*shared));
}

CacheTierStats Replies::stats() const {
  CacheTierStats stats;
  replies_.AddTo(&stats);
  return stats;
}

}  // namespace stowage
