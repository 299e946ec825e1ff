// SIGHUP moves a server to another shared cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/checked_answers.h"
#include "tests/integration/rpc.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/redis_nodes.h"

namespace stowage {
namespace {

// A server without a disk whose file names the shared cache.
class SharedCacheReload : public testing::Test {
 protected:
  static std::string At(const RedisNodes& nodes) {
    return absl::StrCat("shared-cache = \"", nodes.Url(), "\"\n");
  }
  // As tests/integration/shared_cache_test.cc has it: with patience.
  std::vector<std::string> Flags(const std::string& text) {
    file_ = folder_.Write("server.toml", text);
    return {"--config",         file_, "--cache-dir", "none", "--shared-cache-timeout", "60s",
            "--max-solve-time", "900s"};
  }
  // Has the server read a new file, and returns the line about it that contains `parts`.
  std::string Reload(ServerProcess& server, const std::string& text,
                     const std::vector<std::string>& parts) const {
    WriteFile(file_, text);
    server.Signal(SIGHUP);
    return server.WaitForLogLine(parts);
  }
  // Solves a request that is new to the server, whose answer is then among those of `nodes`.
  void ExpectStored(const ServerProcess& server, const RedisNodes& nodes) {
    const auto answers = [&] { return absl::c_count(nodes.Ask(0, {"KEYS", "*}"}), '}'); };
    const auto before = answers();
    EXPECT_EQ(SolveAndCheck(Remote(server.address()), DistinctRequest(++requests_)),
              v1::Origin::SOLVED);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (answers() == before && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(answers(), before + 1);
  }

  const TempFolder folder_;
  std::string file_;
  int requests_ = 0;
};

TEST_F(SharedCacheReload, MovesToAnother) {
  const RedisNodes former(1);
  const RedisNodes next(1);
  ServerProcess server(Flags(At(former)));
  ExpectStored(server, former);
  EXPECT_NE(Reload(server, At(next),
                   {"level=info", "event=reloaded",
                    absl::StrCat("changed=\"shared-cache: ", former.Url(), " -> ", next.Url()),
                    "restart_needed=none"}),
            "");
  ExpectStored(server, next);
  const ServerProcess other(Flags(At(next)));
  EXPECT_EQ(SolveAndCheck(Remote(other.address()), DistinctRequest(requests_)),
            v1::Origin::SHARED_CACHE);
  EXPECT_NE(Reload(server, At(next), {"event=reloaded", "changed=none", "restart_needed=none"}),
            "");
}

TEST_F(SharedCacheReload, StaysWhereTheNewOneDoesNotAnswer) {
  const RedisNodes nodes(1);
  RedisNodes gone(1);
  gone.Kill(0);
  ServerProcess server(Flags(At(nodes)));
  EXPECT_NE(Reload(server, At(gone) + "grace = 7s\n",
                   {"level=error", "event=reload_failed", "--shared-cache: ", gone.address(0),
                    "remedy="}),
            "");
  ExpectStored(server, nodes);
  // Had the other option changed, nothing would be left to change.
  EXPECT_NE(Reload(server, At(nodes) + "grace = 7s\n",
                   {"event=reloaded", "changed=\"grace: 30s -> 7s\"", "restart_needed=none"}),
            "");
}

TEST_F(SharedCacheReload, LogsInAnewWithAnotherFile) {
  const RedisNodes nodes(1);
  for (const char* user : {"one", "other"}) {
    ASSERT_EQ(nodes.Ask(0, {"ACL", "SETUSER", user, "on", ">PASSWORD", "~*", "+@all"}), "OK\n");
  }
  const auto text = [&](const std::string& login) {
    return absl::StrCat(At(nodes), "shared-cache-user-file = \"", login, "\"\n");
  };
  ServerProcess server(Flags(text(folder_.Write("one", "one PASSWORD\n"))));
  ExpectStored(server, nodes);
  EXPECT_NE(Reload(server, text(folder_.Write("wrong", "other WRONG\n")),
                   {"event=reload_failed", "--shared-cache: ", "WRONGPASS"}),
            "");
  EXPECT_NE(Reload(server, text(folder_.Write("other", "other PASSWORD\n")),
                   {"event=reloaded", "changed=\"shared-cache-user-file: "}),
            "");
  ASSERT_EQ(nodes.Ask(0, {"ACL", "DELUSER", "one"}), "1\n");
  ExpectStored(server, nodes);
}

TEST_F(SharedCacheReload, TakesARestartToBeginOrToEnd) {
  const RedisNodes nodes(1);
  ServerProcess with(Flags(At(nodes)));
  EXPECT_NE(Reload(with, "", {"event=reloaded", "changed=none", "restart_needed=\"shared-cache: "}),
            "");
  ExpectStored(with, nodes);
  ServerProcess without(Flags(""));
  EXPECT_NE(Reload(without, At(nodes),
                   {"event=reloaded", "changed=none", "restart_needed=\"shared-cache: "}),
            "");
}

}  // namespace
}  // namespace stowage
