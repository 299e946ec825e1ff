#include "server/cache/tiers/redis_tier.h"

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/cache/tiers/stored_answer.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// What belongs to one cache key has one hash tag, and so is on one node.
std::string KeyIn(absl::string_view fingerprint) {
  return absl::StrCat("stowage:", kStoredVersion, ":{", fingerprint, "}");
}
// nullopt: it is no such key.
std::optional<Fingerprint> FingerprintIn(absl::string_view key) {
  if (!absl::ConsumePrefix(&key, absl::StrCat("stowage:", kStoredVersion, ":{"))) {
    return std::nullopt;
  }
  if (!absl::ConsumeSuffix(&key, "}")) return std::nullopt;
  return FingerprintFromHex(key);
}
// The set of the keys of answers that are stored under their exact sizes, by their rounded ones.
std::string ExactKeysOf(const Fingerprint& rounded) {
  return absl::StrCat(KeyIn(ToHex(rounded)), ":exact");
}

std::string LeaseOf(absl::string_view answer_key) { return absl::StrCat(answer_key, ":lease"); }

// Microseconds since the epoch, which are exact in Lua's numbers.
constexpr absl::string_view kNow = R"lua(
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
)lua";

// A lease is forgotten so many times its duration after its last change: until then a server that
// held it, and was stopped, cannot store what it found over what a later one has.
constexpr int kRemembered = 100;

// KEYS: answer, and the lease of its solve. ARGV: owner, answer, time to live, token, duration,
// "replace" or "add". Makes a new answer, or replaces its owner's, and ends the lease. Returns 1; 0
// where the answer is another owner's, or where there is one to add to; 2 where a later token has
// been here, or where another holds the lease of what was solved without one.
const RedisScript& PutScript() {
  static const auto& script = *new RedisScript(absl::StrCat(kNow, R"lua(
local token = tonumber(ARGV[4])
local stored = redis.call('HMGET', KEYS[1], 'owner', 'token')
local lease = redis.call('HMGET', KEYS[2], 'token', 'until', 'done')
local lease_token = tonumber(lease[1] or 0)
local stored_token = tonumber(stored[2] or 0)
if token == 0 then
  if lease[2] and tonumber(lease[2]) > now and not lease[3] then return 2 end
elseif lease_token > token or stored_token > token then
  return 2
elseif lease_token == token then
  redis.call('HSET', KEYS[2], 'done', '1', 'until', string.format('%.0f', now + ARGV[5] * 1000))
end
if stored[1] and (ARGV[6] == 'add' or stored[1] ~= ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'answer', ARGV[2],
           'token', string.format('%.0f', math.max(token, stored_token)))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
)lua"));
  return script;
}

// KEYS: lease, answer. ARGV: duration, how long to remember it, "take" or "look". Returns what
// became of it, and the token or the fraction. A token is the time, hence later ones are larger.
const RedisScript& TakeScript() {
  static const auto& script = *new RedisScript(absl::StrCat(kNow, R"lua(
local lease = redis.call('HMGET', KEYS[1], 'token', 'until', 'fraction', 'done')
local is_live = lease[2] and tonumber(lease[2]) > now
if is_live and not lease[4] then return {'held', lease[3] or '0'} end
if is_live or redis.call('EXISTS', KEYS[2]) == 1 then return {'done', '0'} end
if ARGV[3] == 'look' then return {'free', '0'} end
local token = string.format('%.0f', math.max(now, tonumber(lease[1] or 0) + 1))
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'token', token, 'until', string.format('%.0f', now + ARGV[1] * 1000))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {(lease[1] and not lease[4]) and 'taken over' or 'taken', token}
)lua"));
  return script;
}

// KEYS: lease. ARGV: token, duration, how long to remember it, fraction. Returns 0 where it is
// another's.
const RedisScript& RenewScript() {
  static const auto& script = *new RedisScript(absl::StrCat(kNow, R"lua(
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'fraction', ARGV[4],
           'until', string.format('%.0f', now + ARGV[2] * 1000))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
)lua"));
  return script;
}

// KEYS: lease. ARGV: token, for how long others learn that it is done.
const RedisScript& EndScript() {
  static const auto& script = *new RedisScript(absl::StrCat(kNow, R"lua(
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'done', '1', 'until', string.format('%.0f', now + ARGV[2] * 1000))
return 1
)lua"));
  return script;
}

std::string Milliseconds(std::chrono::milliseconds time) { return absl::StrCat(time.count()); }

// nullopt: it is no reply of TakeScript().
std::optional<SolveLease> LeaseFrom(const RedisReply& reply) {
  using State = SolveLease::State;
  static const auto& states = *new std::map<absl::string_view, State>{
      {"free", State::kFree}, {"taken", State::kTaken}, {"taken over", State::kTakenOver},
      {"held", State::kHeld}, {"done", State::kDone},
  };
  if (reply.elements.size() != 2) return std::nullopt;
  const auto state = states.find(reply.elements[0].text);
  if (state == states.end()) return std::nullopt;
  SolveLease lease = {.state = state->second};
  const std::string& text = reply.elements[1].text;
  if (lease.state == State::kTaken || lease.state == State::kTakenOver) {
    if (!absl::SimpleAtoi(text, &lease.token) || lease.token <= 0) return std::nullopt;
  } else if (!absl::SimpleAtod(text, &lease.fraction) || !(lease.fraction >= 0) ||
             lease.fraction > 1) {
    return std::nullopt;
  }
  return lease;
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

void RedisTier::SetCluster(std::shared_ptr<RedisCluster> cluster) {
  MutexLock lock(mutex_);
  cluster_.swap(cluster);  // the old one is closed once the lock is released
}

std::shared_ptr<RedisCluster> RedisTier::Cluster() const {
  MutexLock lock(mutex_);
  return cluster_;
}

absl::StatusOr<CachedAnswerPtr> RedisTier::Get(const Fingerprint& key) {
  const std::string name = KeyIn(ToHex(key));
  absl::StatusOr<RedisReply> reply =
      Cluster()->Call(name, {"HMGET", name, "owner", "answer"}, Deadline());
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

// Returns the reply of PutScript(). `how`: as there.
absl::StatusOr<int64_t> RedisTier::Store(const CachedAnswer& cached, absl::string_view how) {
  const Fingerprint& key = KeyOf(cached);
  const std::string name = KeyIn(ToHex(key));
  const std::string time_to_live =
      absl::StrCat(std::chrono::milliseconds(options_.time_to_live).count());
  const auto deadline = Deadline();
  const std::shared_ptr<RedisCluster> cluster = Cluster();
  if (key != cached.keys.rounded) {
    const std::string exact_keys = ExactKeysOf(cached.keys.rounded);
    absl::Status added =
        cluster->Call(exact_keys, {"SADD", exact_keys, ToHex(key)}, deadline).status();
    if (added.ok()) {
      added = cluster->Call(exact_keys, {"PEXPIRE", exact_keys, time_to_live}, deadline).status();
    }
    if (!added.ok()) return Failed(added);
  }
  const absl::StatusOr<RedisReply> put =
      cluster->Run(PutScript(), {name, LeaseOf(name)},
                   {cached.owner, ValueOf(cached), time_to_live, absl::StrCat(cached.lease_token),
                    Milliseconds(options_.lease), how},
                   deadline);
  if (!put.ok()) return Failed(put.status());
  return put->integer;
}

absl::Status RedisTier::Put(CachedAnswerPtr cached) {
  ASSIGN_OR_RETURN(const int64_t put, Store(*cached, "replace"));
  constexpr int64_t kTooLate = 2;
  if (put == kTooLate && cached->lease_token > 0) ++refused_;
  const Fingerprint& rounded = cached->keys.rounded;
  if (KeyOf(*cached) == rounded || cached->lease_token == 0) return absl::OkStatus();
  return End(rounded, cached->lease_token, /*is_done=*/true);
}

absl::StatusOr<bool> RedisTier::PutIfAbsent(CachedAnswerPtr cached) {
  ASSIGN_OR_RETURN(const int64_t put, Store(*cached, "add"));
  return put == 1;
}

absl::Status RedisTier::Visit(absl::FunctionRef<bool(CachedAnswerPtr)> visit) {
  const absl::StatusOr<std::vector<RedisNode>> nodes = Cluster()->Masters(Deadline());
  if (!nodes.ok()) return Failed(nodes.status());
  for (const RedisNode& node : *nodes) {
    ASSIGN_OR_RETURN(const bool goes_on, VisitNode(node, visit));
    if (!goes_on) break;
  }
  return absl::OkStatus();
}

// Returns whether the last visit wants more.
absl::StatusOr<bool> RedisTier::VisitNode(const RedisNode& node,
                                          absl::FunctionRef<bool(CachedAnswerPtr)> visit) {
  const std::string pattern = KeyIn("*");  // leases and sets have more behind it
  std::string cursor = "0";
  do {
    const absl::StatusOr<RedisReply> page =
        Cluster()->CallNode(node, {"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"}, Deadline());
    if (!page.ok()) return Failed(page.status());
    if (page->elements.size() != 2) return Failed(absl::DataLossError("SCAN returns no page"));
    if (!visit(nullptr)) return false;  // of other keys there may be many
    for (const RedisReply& name : page->elements[1].elements) {
      const std::optional<Fingerprint> key = FingerprintIn(name.text);
      if (!key.has_value()) continue;
      absl::StatusOr<CachedAnswerPtr> cached = Get(*key);
      if (absl::IsUnavailable(cached.status())) return cached.status();
      if (!visit(cached.ok() ? *std::move(cached) : nullptr)) return false;
    }
    cursor = page->elements[0].text;
  } while (cursor != "0");
  return true;
}

absl::StatusOr<int64_t> RedisTier::Remove(const Fingerprint& rounded) {
  const std::string exact_keys = ExactKeysOf(rounded);
  absl::StatusOr<RedisReply> members =
      Cluster()->Call(exact_keys, {"SMEMBERS", exact_keys}, Deadline());
  if (!members.ok()) return Failed(members.status());
  const std::string name = KeyIn(ToHex(rounded));
  ASSIGN_OR_RETURN(int64_t removed, Unlink(name));
  RETURN_IF_ERROR(Unlink(LeaseOf(name)).status());
  for (const RedisReply& member : members->elements) {
    ASSIGN_OR_RETURN(const int64_t unlinked, Unlink(KeyIn(member.text)));
    removed += unlinked;
  }
  RETURN_IF_ERROR(Unlink(exact_keys).status());
  return removed;
}

// Returns how many there were, 0 or 1.
absl::StatusOr<int64_t> RedisTier::Unlink(absl::string_view key) {
  const absl::StatusOr<RedisReply> reply = Cluster()->Call(key, {"UNLINK", key}, Deadline());
  if (!reply.ok()) return Failed(reply.status());
  return reply->integer;
}

absl::StatusOr<SolveLease> RedisTier::Ask(const Fingerprint& key, absl::string_view how) {
  const std::string name = KeyIn(ToHex(key));
  const std::string lease_name = LeaseOf(name);
  const absl::StatusOr<RedisReply> reply = Cluster()->Run(
      TakeScript(), {lease_name, name},
      {Milliseconds(options_.lease), Milliseconds(kRemembered * options_.lease), how}, Deadline());
  if (!reply.ok()) return Failed(reply.status());
  const std::optional<SolveLease> lease = LeaseFrom(*reply);
  if (lease.has_value()) return *lease;
  return Failed(absl::DataLossError(absl::StrCat("what it answers is no lease: ", lease_name)));
}

absl::StatusOr<SolveLease> RedisTier::Take(const Fingerprint& key) {
  ASSIGN_OR_RETURN(const SolveLease lease, Ask(key, "take"));
  if (lease.state == SolveLease::State::kTaken) ++taken_;
  if (lease.state == SolveLease::State::kTakenOver) ++taken_over_;
  if (lease.state == SolveLease::State::kHeld) ++waited_;
  return lease;
}

absl::StatusOr<SolveLease> RedisTier::Look(const Fingerprint& key) { return Ask(key, "look"); }

absl::StatusOr<bool> RedisTier::Renew(const Fingerprint& key, int64_t token, double fraction) {
  const std::string lease_name = LeaseOf(KeyIn(ToHex(key)));
  const absl::StatusOr<RedisReply> reply =
      Cluster()->Run(RenewScript(), {lease_name},
                     {absl::StrCat(token), Milliseconds(options_.lease),
                      Milliseconds(kRemembered * options_.lease), absl::StrCat(fraction)},
                     Deadline());
  if (!reply.ok()) return Failed(reply.status());
  if (reply->integer == 0) ++lost_;
  return reply->integer != 0;
}

absl::Status RedisTier::End(const Fingerprint& key, int64_t token, bool is_done) {
  const std::string lease_name = LeaseOf(KeyIn(ToHex(key)));
  const std::chrono::milliseconds known = is_done ? options_.lease : std::chrono::milliseconds(0);
  const absl::Status ended =
      Cluster()
          ->Run(EndScript(), {lease_name}, {absl::StrCat(token), Milliseconds(known)}, Deadline())
          .status();
  return ended.ok() ? ended : Failed(ended);
}

LeaseStats RedisTier::lease_stats() const {
  return {.taken = taken_,
          .taken_over = taken_over_,
          .waited = waited_,
          .lost = lost_,
          .refused = refused_};
}

}  // namespace stowage
