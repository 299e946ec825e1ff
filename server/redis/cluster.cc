#include "server/redis/cluster.h"

#include <openssl/sha.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxRedirections = 5;
constexpr size_t kMaxIdle = 16;                        // connections to a node, for reuse
constexpr std::chrono::milliseconds kLearnPause{100};  // between questions for the slots

std::string Sha1Of(absl::string_view text) {
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest;
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

// Where a slot is now: "MOVED 3999 127.0.0.1:6381". Without a host it is the one that was asked.
absl::StatusOr<RedisNode> TargetOf(const RedisReply& redirection, const RedisNode& asked) {
  const std::vector<absl::string_view> words = absl::StrSplit(redirection.text, ' ');
  if (words.size() == 3) {
    const std::string with_host =
        words[2].substr(0, 1) == ":" ? absl::StrCat(asked.host, words[2]) : std::string(words[2]);
    absl::StatusOr<RedisNode> node = ParseRedisNode(with_host);
    if (node.ok()) return node;
  }
  return absl::DataLossError(
      absl::StrCat(ToText(asked), ": it redirects nowhere: ", Quoted(redirection.text)));
}

// Errors that end by themselves: of a node that starts, a cluster that elects a master or moves
// slots, a master that has become a replica, a memory that is full.
bool IsPassing(absl::string_view code) {
  for (const char* passing : {"CLUSTERDOWN", "LOADING", "TRYAGAIN", "MASTERDOWN", "READONLY",
                              "BUSY", "NOREPLICAS", "OOM"}) {
    if (code == passing) return true;
  }
  return false;
}

bool IsRefusal(absl::string_view code) {
  return code == "NOAUTH" || code == "WRONGPASS" || code == "NOPERM";
}

absl::Status StatusOf(const RedisReply& reply) {
  const absl::string_view code = reply.error_code();
  const std::string message = absl::StrCat("Redis answers ", Quoted(reply.text));
  if (IsPassing(code)) return absl::UnavailableError(message);
  if (IsRefusal(code)) return absl::PermissionDeniedError(message);
  return absl::FailedPreconditionError(message);
}

// One row of CLUSTER SLOTS: first and last slot, the master's host and port, and replicas.
struct SlotRange {
  int first = 0;
  int last = 0;
  RedisNode master;
};

std::optional<SlotRange> RangeOf(const RedisReply& row, const RedisNode& asked, int slots) {
  if (row.elements.size() < 3 || row.elements[2].elements.size() < 2) return std::nullopt;
  const int64_t first = row.elements[0].integer;
  const int64_t last = row.elements[1].integer;
  const std::string& host = row.elements[2].elements[0].text;
  const int64_t port = row.elements[2].elements[1].integer;
  if (first < 0 || last < first || last >= slots || port < 1 || port > 65'535) return std::nullopt;
  return SlotRange{static_cast<int>(first), static_cast<int>(last),
                   RedisNode{host.empty() ? asked.host : host, static_cast<int>(port)}};
}

}  // namespace

// CRC16 with the polynomial of XMODEM, as the specification of Redis Cluster has it.
int SlotOf(absl::string_view key) {
  const size_t open = key.find('{');
  if (open != absl::string_view::npos) {
    const size_t close = key.find('}', open + 1);
    if (close != absl::string_view::npos && close > open + 1) {
      key = key.substr(open + 1, close - open - 1);
    }
  }
  uint32_t crc = 0;
  for (const char byte : key) {
    crc ^= static_cast<uint32_t>(static_cast<unsigned char>(byte)) << 8;
    for (int bit = 0; bit < 8; ++bit) {
      crc = ((crc << 1) ^ ((crc & 0x8000) != 0 ? 0x1021U : 0U)) & 0xffff;
    }
  }
  return static_cast<int>(crc % 16'384);
}

RedisScript::RedisScript(std::string its_text) : text(std::move(its_text)), sha1(Sha1Of(text)) {}

absl::StatusOr<RedisReply> RedisCluster::Call(absl::string_view key, const Arguments& arguments,
                                              Clock::time_point deadline) {
  ASSIGN_OR_RETURN(RedisReply reply, Send(key, arguments, deadline));
  if (reply.is_error()) return StatusOf(reply);
  return reply;
}

absl::StatusOr<RedisReply> RedisCluster::Run(const RedisScript& script,
                                             const std::vector<absl::string_view>& keys,
                                             const std::vector<absl::string_view>& arguments,
                                             Clock::time_point deadline) {
  const std::string count = absl::StrCat(keys.size());
  Arguments command = {"EVALSHA", script.sha1, count};
  command.insert(command.end(), keys.begin(), keys.end());
  command.insert(command.end(), arguments.begin(), arguments.end());
  ASSIGN_OR_RETURN(RedisReply reply, Send(keys.front(), command, deadline));
  if (reply.error_code() == "NOSCRIPT") {
    command[0] = "EVAL";
    command[1] = script.text;
    ASSIGN_OR_RETURN(reply, Send(keys.front(), command, deadline));
  }
  if (reply.is_error()) return StatusOf(reply);
  return reply;
}

absl::StatusOr<std::vector<RedisNode>> RedisCluster::Masters(Clock::time_point deadline) {
  RETURN_IF_ERROR(LearnSlots(deadline));
  MutexLock lock(mutex_);
  return nodes_;
}

absl::StatusOr<RedisReply> RedisCluster::CallNode(const RedisNode& node, const Arguments& arguments,
                                                  Clock::time_point deadline) {
  ASSIGN_OR_RETURN(RedisReply reply, SendTo(node, /*is_asking=*/false, arguments, deadline));
  if (reply.is_error()) return StatusOf(reply);
  return reply;
}

// Follows redirections. What comes back may be another error reply.
absl::StatusOr<RedisReply> RedisCluster::Send(absl::string_view key, const Arguments& arguments,
                                              Clock::time_point deadline) {
  const int slot = SlotOf(key);
  ASSIGN_OR_RETURN(RedisNode node, MasterOf(slot, deadline));
  bool is_asking = false;
  for (int i = 0; i <= kMaxRedirections; ++i) {
    ASSIGN_OR_RETURN(RedisReply reply, SendTo(node, is_asking, arguments, deadline));
    const absl::string_view code = reply.error_code();
    is_asking = code == "ASK";
    if (code != "MOVED" && !is_asking) {
      if (IsPassing(code)) Failed(node);
      return reply;
    }
    ASSIGN_OR_RETURN(node, TargetOf(reply, node));
    if (!is_asking) Moved(slot, node);
  }
  return absl::UnavailableError(
      absl::StrCat(ToText(node), ": the nodes redirect to each other; their slots are moving"));
}

// A connection that was idle may have been closed meanwhile: the command is sent again on a new
// one.
absl::StatusOr<RedisReply> RedisCluster::SendTo(const RedisNode& node, bool is_asking,
                                                const Arguments& arguments,
                                                Clock::time_point deadline) {
  const auto send = [&](RedisConnection& connection) -> absl::StatusOr<RedisReply> {
    if (is_asking) RETURN_IF_ERROR(connection.Call({"ASKING"}, deadline).status());
    return connection.Call(arguments, deadline);
  };
  ConnectionPtr connection = TakeIdle(node);
  absl::StatusOr<RedisReply> reply = absl::UnavailableError("not connected");
  if (connection != nullptr) reply = send(*connection);
  if (absl::IsUnavailable(reply.status())) {
    absl::StatusOr<ConnectionPtr> made = Connect(node, deadline);
    if (made.ok()) {
      connection = *std::move(made);
      reply = send(*connection);
    } else {
      reply = made.status();
    }
  }
  if (!reply.ok()) {
    Failed(node);
    return reply;
  }
  GiveBack(std::move(connection));
  return reply;
}

absl::StatusOr<RedisCluster::ConnectionPtr> RedisCluster::Connect(
    const RedisNode& node, Clock::time_point deadline) const {
  ASSIGN_OR_RETURN(const RedisLogin login, login_());
  return RedisConnection::Connect(node, login, deadline);
}

absl::StatusOr<RedisNode> RedisCluster::MasterOf(int slot, Clock::time_point deadline) {
  bool learns = false;
  {
    MutexLock lock(mutex_);
    const Clock::time_point now = Clock::now();
    const bool is_known = masters_[static_cast<size_t>(slot)] >= 0;
    learns = !is_known || (is_stale_ && now >= learnt_ + kLearnPause);
    if (learns) learnt_ = now;
  }
  const absl::Status status = learns ? LearnSlots(deadline) : absl::OkStatus();
  MutexLock lock(mutex_);
  const NodeIndex master = masters_[static_cast<size_t>(slot)];
  if (master >= 0) return nodes_[static_cast<size_t>(master)];
  if (!status.ok()) return status;
  return absl::UnavailableError("no node of the cluster is known to serve the key");
}

// Seeds and known masters, the one that failed last at the end.
std::vector<RedisNode> RedisCluster::NodesToAsk() const {
  MutexLock lock(mutex_);
  std::vector<RedisNode> nodes = nodes_;
  for (const RedisNode& seed : seeds_) {
    if (std::find(nodes.begin(), nodes.end(), seed) == nodes.end()) nodes.push_back(seed);
  }
  const std::optional<RedisNode> failed = failed_;
  std::stable_partition(nodes.begin(), nodes.end(),
                        [&failed](const RedisNode& node) { return node != failed; });
  return nodes;
}

// Asks one node after another. A Redis that is no cluster serves all keys itself.
absl::Status RedisCluster::LearnSlots(Clock::time_point deadline) {
  absl::Status status;
  for (const RedisNode& node : NodesToAsk()) {
    const absl::StatusOr<RedisReply> reply =
        SendTo(node, /*is_asking=*/false, {"CLUSTER", "SLOTS"}, deadline);
    if (!reply.ok()) {
      status = reply.status();
    } else if (reply->is_error() && reply->error_code() != "ERR") {
      status = StatusOf(*reply);
    } else if (ReadSlots(node, *reply)) {
      return absl::OkStatus();
    } else {
      status = absl::DataLossError(
          absl::StrCat(ToText(node), ": CLUSTER SLOTS does not say which node serves what"));
    }
    if (Clock::now() >= deadline) break;
  }
  return status;
}

bool RedisCluster::ReadSlots(const RedisNode& asked, const RedisReply& reply) {
  std::vector<SlotRange> ranges;
  if (reply.is_error()) ranges.push_back({0, kSlots - 1, asked});
  for (const RedisReply& row : reply.elements) {
    std::optional<SlotRange> range = RangeOf(row, asked, kSlots);
    if (!range.has_value()) return false;
    ranges.push_back(*std::move(range));
  }
  if (ranges.empty()) return false;
  MutexLock lock(mutex_);
  nodes_.clear();
  masters_ = Unknown();
  for (const SlotRange& range : ranges) {
    const NodeIndex master = IndexOf(range.master);
    std::fill(masters_.begin() + range.first, masters_.begin() + range.last + 1, master);
  }
  const std::set<RedisNode> served(nodes_.begin(), nodes_.end());
  std::erase_if(idle_, [&served](const auto& entry) { return !served.contains(entry.first); });
  is_stale_ = false;
  return true;
}

// Other slots have probably moved, too.
void RedisCluster::Moved(int slot, const RedisNode& node) {
  MutexLock lock(mutex_);
  masters_[static_cast<size_t>(slot)] = IndexOf(node);
  is_stale_ = true;
}

// There are no more masters than slots.
RedisCluster::NodeIndex RedisCluster::IndexOf(const RedisNode& node) {
  auto place = std::find(nodes_.begin(), nodes_.end(), node);
  if (place == nodes_.end()) place = nodes_.insert(place, node);
  return static_cast<NodeIndex>(place - nodes_.begin());
}

RedisCluster::ConnectionPtr RedisCluster::TakeIdle(const RedisNode& node) {
  MutexLock lock(mutex_);
  const auto idle = idle_.find(node);
  if (idle == idle_.end() || idle->second.empty()) return nullptr;
  ConnectionPtr connection = std::move(idle->second.back());
  idle->second.pop_back();
  return connection;
}

void RedisCluster::GiveBack(ConnectionPtr connection) {
  MutexLock lock(mutex_);
  std::vector<ConnectionPtr>& idle = idle_[connection->node()];
  if (idle.size() < kMaxIdle) idle.push_back(std::move(connection));
}

// Perhaps another node has taken over.
void RedisCluster::Failed(const RedisNode& node) {
  std::vector<ConnectionPtr> closed;  // after the lock is released
  MutexLock lock(mutex_);
  is_stale_ = true;
  failed_ = node;
  if (const auto idle = idle_.find(node); idle != idle_.end()) closed.swap(idle->second);
}

}  // namespace stowage
