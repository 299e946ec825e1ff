#include "tests/support/redis_nodes.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

int NextPorts(int count) {
  static std::atomic<int> next{6379};
  return next.fetch_add(count);
}

std::vector<std::string> WithClusterFlags(std::vector<std::string> flags) {
  for (const char* flag :
       {"--cluster-enabled", "yes", "--cluster-node-timeout", "30000",
        "--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0"}) {
    flags.emplace_back(flag);
  }
  return flags;
}

}  // namespace

// A number of a process has 22 bits, an address of the loopback device 24.
std::string RedisNodes::Host() {
  const auto pid = static_cast<unsigned>(getpid());
  return absl::StrCat("127.", 64 + (pid >> 16), ".", (pid >> 8) & 255, ".", pid & 255);
}

RedisNodes::RedisNodes(int count, const std::vector<std::string>& flags)
    : first_port_(NextPorts(count)), flags_(flags) {
  nodes_.resize(static_cast<size_t>(count));
  for (size_t i = 0; i < nodes_.size(); ++i) Start(i);
}

std::string RedisNodes::address(size_t node) const {
  return absl::StrCat(Host(), ":", first_port_ + static_cast<int>(node));
}

std::string RedisNodes::Url() const {
  std::vector<std::string> addresses;
  for (size_t i = 0; i < nodes_.size(); ++i) addresses.push_back(address(i));
  return absl::StrCat("redis://", absl::StrJoin(addresses, ","));
}

void RedisNodes::Start(size_t node) {
  std::vector<std::string> argv = {"/usr/bin/redis-server",
                                   "--bind",
                                   Host(),
                                   "--bind-source-addr",
                                   Host(),
                                   HasTls() ? "--tls-port" : "--port",
                                   absl::StrCat(first_port_ + static_cast<int>(node)),
                                   "--dir",
                                   folder_.Path(""),
                                   "--cluster-config-file",
                                   absl::StrCat("nodes-", node, ".conf"),
                                   "--save",
                                   "",
                                   "--protected-mode",
                                   "no"};
  argv.insert(argv.end(), flags_.begin(), flags_.end());
  nodes_[node] = std::make_unique<BackgroundProgram>(argv);
  WaitUntilItAnswers(node);
}

void RedisNodes::WaitUntilItAnswers(size_t node) const {
  const auto deadline = Clock::now() + kPatience;
  const auto answers = [&] {
    const std::string answer = Ask(node, {"PING"});
    return absl::StrContains(answer, "PONG") || absl::StrContains(answer, "NOAUTH");
  };
  while (!answers()) {
    if (Clock::now() > deadline) throw std::runtime_error("redis-server does not answer");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

std::string RedisNodes::ValueOf(const std::string& flag) const {
  const auto place = std::find(flags_.begin(), flags_.end(), flag);
  return place != flags_.end() ? *(place + 1) : "";
}

bool RedisNodes::HasTls() const { return !ValueOf("--tls-cert-file").empty(); }

std::string RedisNodes::Ask(size_t node, const std::vector<std::string>& command) const {
  std::vector<std::string> argv = {"/usr/bin/redis-cli", "-h", Host(), "-p",
                                   absl::StrCat(first_port_ + static_cast<int>(node))};
  if (HasTls()) {
    for (const std::string& flag :
         {std::string("--tls"), std::string("--cert"), ValueOf("--tls-cert-file"),
          std::string("--key"), ValueOf("--tls-key-file"), std::string("--cacert"),
          ValueOf("--tls-ca-cert-file")}) {
      argv.push_back(flag);
    }
  }
  argv.insert(argv.end(), command.begin(), command.end());
  return RunProgram(argv).out;
}

std::vector<std::string> TlsRedisFlags(const Pair& server, const Pair& authority) {
  return {"--port",         "0",        "--tls-cert-file",    server.certificate,
          "--tls-key-file", server.key, "--tls-ca-cert-file", authority.certificate};
}

RedisClusterNodes::RedisClusterNodes(const std::vector<std::string>& flags)
    : RedisNodes(6, WithClusterFlags(flags)) {
  std::vector<std::string> argv = {"/usr/bin/redis-cli", "--cluster", "create"};
  for (size_t i = 0; i < size(); ++i) argv.push_back(address(i));
  for (const char* flag : {"--cluster-replicas", "1", "--cluster-yes"}) argv.emplace_back(flag);
  const ProgramResult created = RunProgram(argv);
  const auto deadline = Clock::now() + kPatience;
  for (size_t i = 0; i < size(); ++i) {
    // A replica that has nothing of its master yet never takes over.
    const auto is_ready = [&] {
      const std::string replication = Ask(i, {"INFO", "replication"});
      return absl::StrContains(Ask(i, {"CLUSTER", "INFO"}), "cluster_state:ok") &&
             (absl::StrContains(replication, "role:master") ||
              absl::StrContains(replication, "master_link_status:up"));
    };
    while (!is_ready()) {
      if (created.exit_code != 0 || Clock::now() > deadline) {
        throw std::runtime_error(absl::StrCat("no cluster: ", created.out, created.err));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

void RedisClusterNodes::FailQuickly() {
  for (size_t i = 0; i < size(); ++i) Ask(i, {"CONFIG", "SET", "cluster-node-timeout", "1000"});
}

}  // namespace stowage
