#include "server/cache/tiers/redis_tier.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/cache/tiers/stored_answer.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// What belongs to one cache key has one hash tag, and so is on one node.
std::string KeyIn(absl::string_view fingerprint) {
  return absl::StrCat("stowage:", kStoredVersion, ":{", fingerprint, "}");
}
// The set of the keys of answers that are stored under their exact sizes, by their rounded ones.
std::string ExactKeysOf(const Fingerprint& rounded) {
  return absl::StrCat(KeyIn(ToHex(rounded)), ":exact");
}

// Replaces its owner's answer, or makes a new one.
const RedisScript& PutScript() {
  static const auto& script = *new RedisScript(R"lua(
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner and owner ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'answer', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
)lua");
  return script;
}

// The answer's bytes behind their checksum.
std::string ValueOf(const CachedAnswer& cached) {
  const std::string bytes = EncodeAnswer(cached);
  const uint64_t checksum = StoredChecksum(KeyOf(cached), bytes);
  std::string value(sizeof(checksum), '\0');
  std::memcpy(value.data(), &checksum, sizeof(checksum));
  return value + bytes;
}

// Null: it is no such value, or another key's.
CachedAnswerPtr CachedFrom(const Fingerprint& key, absl::string_view value, std::string owner) {
  uint64_t checksum = 0;
  if (value.size() < sizeof(checksum)) return nullptr;
  std::memcpy(&checksum, value.data(), sizeof(checksum));
  const absl::string_view bytes = value.substr(sizeof(checksum));
  if (StoredChecksum(key, bytes) != checksum) return nullptr;
  return DecodeAnswer(bytes, std::move(owner));
}

// A tier that does not work is unavailable, whatever the reason.
absl::Status Failed(const absl::Status& status) {
  return absl::UnavailableError(absl::StrCat("the shared cache: ", status.message()));
}

}  // namespace

RedisCluster::Clock::time_point RedisTier::Deadline() const {
  return RedisCluster::Clock::now() + options_.timeout;
}

absl::StatusOr<CachedAnswerPtr> RedisTier::Get(const Fingerprint& key) {
  const std::string name = KeyIn(ToHex(key));
  absl::StatusOr<RedisReply> reply =
      cluster_->Call(name, {"HMGET", name, "owner", "answer"}, Deadline());
  if (!reply.ok()) return Failed(reply.status());
  if (reply->elements.size() == 2 && reply->elements[1].is_nil()) return CachedAnswerPtr();
  CachedAnswerPtr cached;
  if (reply->elements.size() == 2) {
    cached = CachedFrom(key, reply->elements[1].text, std::move(reply->elements[0].text));
  }
  if (cached != nullptr) return cached;
  (void)Unlink(name);
  return absl::DataLossError(
      absl::StrCat("the shared cache: what it holds under ", name, " is no answer; removed"));
}

absl::Status RedisTier::Put(CachedAnswerPtr cached) {
  const Fingerprint& key = KeyOf(*cached);
  const std::string name = KeyIn(ToHex(key));
  const std::string time_to_live =
      absl::StrCat(std::chrono::milliseconds(options_.time_to_live).count());
  const auto deadline = Deadline();
  if (key != cached->keys.rounded) {
    const std::string exact_keys = ExactKeysOf(cached->keys.rounded);
    absl::Status added =
        cluster_->Call(exact_keys, {"SADD", exact_keys, ToHex(key)}, deadline).status();
    if (added.ok()) {
      added = cluster_->Call(exact_keys, {"PEXPIRE", exact_keys, time_to_live}, deadline).status();
    }
    if (!added.ok()) return Failed(added);
  }
  const absl::Status put =
      cluster_->Run(PutScript(), {name}, {cached->owner, ValueOf(*cached), time_to_live}, deadline)
          .status();
  return put.ok() ? put : Failed(put);
}

absl::StatusOr<int64_t> RedisTier::Remove(const Fingerprint& rounded) {
  const std::string exact_keys = ExactKeysOf(rounded);
  absl::StatusOr<RedisReply> members =
      cluster_->Call(exact_keys, {"SMEMBERS", exact_keys}, Deadline());
  if (!members.ok()) return Failed(members.status());
  ASSIGN_OR_RETURN(int64_t removed, Unlink(KeyIn(ToHex(rounded))));
  for (const RedisReply& member : members->elements) {
    ASSIGN_OR_RETURN(const int64_t unlinked, Unlink(KeyIn(member.text)));
    removed += unlinked;
  }
  RETURN_IF_ERROR(Unlink(exact_keys).status());
  return removed;
}

// Returns how many there were, 0 or 1.
absl::StatusOr<int64_t> RedisTier::Unlink(absl::string_view key) {
  const absl::StatusOr<RedisReply> reply = cluster_->Call(key, {"UNLINK", key}, Deadline());
  if (!reply.ok()) return Failed(reply.status());
  return reply->integer;
}

}  // namespace stowage
