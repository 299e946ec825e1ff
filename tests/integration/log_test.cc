// The log as JSON, as collectors read it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "grpcpp/grpcpp.h"
#include "nlohmann/json.hpp"
#include "tests/integration/rpc.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using nlohmann::json;
using testing::MatchesRegex;

TEST(JsonLog, EveryLineIsAnObjectWithTheKeysOfText) {
  BackgroundProgram server({Program("stowage-server"), "--listen", "127.0.0.1:0", "--http",
                            "127.0.0.1:0", "--lame-duck", "0s", "--log-format", "json"});
  const std::string serving = server.WaitForLogLine({R"("event":"serving")"});
  ASSERT_NE(serving, "") << server.Log();
  const Remote remote(json::parse(serving)["address"].get<std::string>());

  const std::string hostile = "a \"name\"\\ with=all,{}[] \x1b[31m";
  grpc::ClientContext context;
  context.AddMetadata("x-request-id", "job \"17\" {a=b}\\");
  v1::SolveResponse response;
  ASSERT_TRUE(remote.Solve(SmallSolveRequest(), &response, &context).ok());
  const std::string fingerprint = response.origin().fingerprint();
  v1::SolveRequest refused = SmallSolveRequest();
  refused.set_solver(hostile);
  EXPECT_FALSE(remote.Solve(refused, &response).ok());
  ASSERT_NE(server.WaitForLogLine({R"("code":"INVALID_ARGUMENT")"}), "") << server.Log();
  server.Signal(SIGTERM);
  EXPECT_EQ(server.WaitForExit(), 0);

  std::map<std::string, std::vector<json>> lines;  // by event
  const std::string log = server.Log();
  for (const absl::string_view line : absl::StrSplit(log, '\n', absl::SkipEmpty())) {
    const json parsed = json::parse(std::string(line), nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(parsed.is_object()) << line;
    EXPECT_THAT(parsed["time"].get<std::string>(),
                MatchesRegex("[0-9-]+T[0-9:]+[.][0-9]+[+-][0-9:]+"));
    EXPECT_THAT(parsed["level"].get<std::string>(), MatchesRegex("info|warning"));
    lines[parsed["event"]].push_back(parsed);
  }
  ASSERT_EQ(lines["call"].size(), 2);
  const json& solved = lines["call"][0];
  EXPECT_EQ(solved["method"], "Solve");
  EXPECT_EQ(solved["id"], "job \"17\" {a=b}\\");
  EXPECT_EQ(solved["code"], "OK");
  EXPECT_EQ(solved["stages"], 3);
  EXPECT_TRUE(solved["seconds"].is_number_float());
  EXPECT_TRUE(solved["queue_seconds"].is_number_float());
  EXPECT_EQ(solved["fingerprint"], fingerprint);
  const json& failed = lines["call"][1];
  EXPECT_EQ(failed["code"], "INVALID_ARGUMENT");
  EXPECT_THAT(failed["message"].get<std::string>(), testing::HasSubstr("solver"));
  EXPECT_TRUE(lines["serving"][0]["threads"].is_number_integer());
  EXPECT_EQ(lines["draining"][0]["signal"], SIGTERM);
  EXPECT_EQ(lines["stopped"].size(), 1);
}

TEST(JsonLog, AnAbortedServerSaysSo) {
  BackgroundProgram server({Program("stowage-server"), "--listen", "127.0.0.1:0", "--http",
                            "127.0.0.1:0", "--log-format", "json"});
  ASSERT_NE(server.WaitForLogLine({R"("event":"serving")"}), "") << server.Log();
  server.Signal(SIGABRT);
  EXPECT_EQ(server.WaitForExit(), 128 + SIGABRT);
  const std::string line = server.WaitForLogLine({R"("event":"aborted")"});
  ASSERT_NE(line, "") << server.Log();
  EXPECT_EQ(json::parse(line)["level"], "error");
}

}  // namespace
}  // namespace stowage
