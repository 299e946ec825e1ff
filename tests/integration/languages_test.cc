// The examples in Go, Java and Node against real servers, built as client/examples/README.md says.
// They are skipped where a language's tools are missing or too old, or its registry is out of
// reach.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/integration/metrics.h"
#include "tests/integration/rpc.h"
#include "tests/support/certificates.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage::languages_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Optional;
using testing::StartsWith;

constexpr const char* kExamples = STOWAGE_ROOT "/client/examples";
constexpr const char* kWatchesHealth = STOWAGE_ROOT "/deploy/grpc/service_config.json";
constexpr const char* kProfile = "torchvision-resnet50-32-224";
constexpr int64_t kMemoryBytes = 2'000'000'000;
constexpr const char* kSolvesBegun =
    "grpc_server_started_total{grpc_method=\"Solve\",grpc_service=\"stowage.v1.Scheduler\","
    "grpc_type=\"unary\"}";

struct Language {
  std::string folder;  // of client/examples
  std::string needs;   // what is missing where `at_hand` fails
  std::string at_hand;
  std::string fetch;  // what it depends on
  std::vector<std::string> build;
  std::string run;
  std::string drained;  // what the example says where the only server is not healthy
};

// What a shell says to a command in the example's folder.
std::vector<std::string> InFolder(const Language& language, const std::string& command) {
  return {"/bin/sh", "-c", absl::StrCat("cd ", kExamples, "/", language.folder, " && ", command)};
}

// The command that asks `servers` about a profile.
std::string Solve(const Language& language, const std::string& servers,
                  int64_t memory_bytes = kMemoryBytes, const std::string& profile = kProfile,
                  const std::string& service_config = kWatchesHealth) {
  return absl::StrCat(language.run, " ", service_config, " ", servers, " ", ProfilePath(profile),
                      " ", memory_bytes);
}

// The server's answer as the examples print it.
std::string Printed(const v1::SolveResponse& answer) {
  if (answer.outcome() == v1::INFEASIBLE) {
    return absl::StrFormat("INFEASIBLE: no schedule fits below %d bytes\n",
                           answer.minimum_memory_bytes());
  }
  return absl::StrFormat("%s: %d operations of %s take %.4f s and %d bytes\n",
                         v1::Outcome_Name(answer.outcome()), answer.schedule().operations_size(),
                         answer.origin().solver(), answer.prediction().makespan_seconds(),
                         answer.prediction().peak_memory_bytes());
}

void PrintsTheAnswer(const Language& language, const std::string& profile, int64_t memory_bytes) {
  const ServerProcess server;
  v1::SolveRequest request;
  *request.mutable_chain() = Profile(profile);
  request.mutable_platform()->set_memory_bytes(memory_bytes);
  v1::SolveResponse answer;
  ASSERT_TRUE(Remote(server.address()).Solve(request, &answer).ok());
  const ProgramResult result =
      RunProgram(InFolder(language, Solve(language, server.address(), memory_bytes, profile)));
  EXPECT_EQ(result.exit_code, answer.outcome() == v1::INFEASIBLE ? 2 : 0) << result;
  EXPECT_EQ(result.out, Printed(answer)) << result;
}

void NamesTheReasonAndTheField(const Language& language) {
  const ServerProcess server;
  const ProgramResult result =
      RunProgram(InFolder(language, Solve(language, server.address(), -1)));
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_THAT(result.out, AllOf(StartsWith("INVALID_ARGUMENT: platform.memory_bytes: "),
                                HasSubstr("\nreason stowage/INVALID\n"),
                                HasSubstr("\nfield platform.memory_bytes: ")))
      << result;
}

void SaysWhenToRetry(const Language& language) {
  const ServerProcess server({std::begin(kOneAtATime), std::end(kOneAtATime)});
  const Remote remote(server.address());
  const auto running = Occupy(remote, LongSolveRequest());
  const TempFolder folder;
  const std::string without_retries = folder.Write("config.json", "{}");
  const ProgramResult result = RunProgram(InFolder(
      language, Solve(language, server.address(), kMemoryBytes, kProfile, without_retries)));
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_THAT(result.out,
              AllOf(StartsWith("RESOURCE_EXHAUSTED: "), HasSubstr("\nreason stowage/QUEUE_FULL\n"),
                    HasSubstr("\nretry after 1000 ms\n")))
      << result;
}

void SpeaksTlsAndShowsItsToken(const Language& language) {
  Office office;
  const Pair authority = office.Authority("authority");
  std::vector<std::string> flags = TlsFlags(office.Server("server", authority));
  const std::string token(32, 'a');
  flags.insert(flags.end(),
               {"--token-file", office.folder().Write("tokens", absl::StrCat("trainer ", token))});
  const ServerProcess server(flags);
  const std::string trusting = absl::StrCat("STOWAGE_TLS_CA=", authority.certificate, " ");
  const std::string solve = Solve(language, server.address());
  const ProgramResult refused = RunProgram(InFolder(language, trusting + solve));
  EXPECT_EQ(refused.exit_code, 1) << refused;
  EXPECT_THAT(refused.out, StartsWith("UNAUTHENTICATED: ")) << refused;
  const ProgramResult result = RunProgram(
      InFolder(language, absl::StrCat(trusting, "STOWAGE_TOKEN_FILE=",
                                      office.folder().Write("mine", token + "\n"), " ", solve)));
  EXPECT_EQ(result.exit_code, 0) << result;
}

// One of two servers, each busy for a minute, is killed with the example's call in its queue.
void GoesOnToAnotherServerWhereOneIsKilled(const Language& language) {
  constexpr int kOthers = 6;
  const auto make_server = [] {
    return std::make_unique<ServerProcess>(
        std::vector<std::string>{"--threads", "1", "--short-threads", "0"});
  };
  const std::unique_ptr<ServerProcess> servers[] = {make_server(), make_server()};
  const Remote remotes[] = {Remote(servers[0]->address()), Remote(servers[1]->address())};
  std::vector<std::unique_ptr<PendingSolve>> others[2];
  for (int i = 0; i < 2; ++i) {
    for (int n = 0; n < kOthers; ++n) {
      others[i].push_back(std::make_unique<PendingSolve>(remotes[i], LongSolveRequest()));
    }
    WaitForMetric(*servers[i], kSolvesBegun, kOthers);
  }
  BackgroundProgram client(InFolder(
      language,
      absl::StrCat("exec ",
                   Solve(language, absl::StrCat(servers[0]->address(), ",", servers[1]->address())),
                   " >&2")));
  const auto has_the_call = [&](int i) { return MetricOf(*servers[i], kSolvesBegun) > kOthers; };
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!has_the_call(0) && !has_the_call(1)) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << client.Log();
  }
  const int killed = has_the_call(0) ? 0 : 1;
  servers[killed]->Signal(SIGKILL);
  WaitForMetric(*servers[1 - killed], kSolvesBegun, kOthers + 1);
  others[1 - killed].clear();
  EXPECT_THAT(client.WaitForExit(), Optional(0)) << client.Log();
  EXPECT_THAT(client.Log(), HasSubstr("OPTIMAL: "));
}

// It still answers, but its health says NOT_SERVING.
void AvoidsAServerThatIsNotHealthy(const Language& language) {
  ServerProcess server({"--lame-duck", "1000s"});
  server.Signal(SIGTERM);
  const Remote remote(server.address());
  while (remote.Health("stowage.v1.Scheduler") != HealthState::NOT_SERVING) {
  }
  const ProgramResult result = RunProgram(InFolder(language, Solve(language, server.address())));
  EXPECT_THAT(result.out, StartsWith(language.drained)) << result;
}

void TryExample(const Language& language) {
  const ProgramResult at_hand = RunProgram({"/bin/sh", "-c", language.at_hand});
  if (at_hand.exit_code != 0) GTEST_SKIP() << "needs " << language.needs << ": " << at_hand.err;
  const ProgramResult fetched = RunProgram(InFolder(language, language.fetch));
  if (fetched.exit_code != 0) GTEST_SKIP() << "needs what `" << language.fetch << "` gets";
  for (const std::string& command : language.build) {
    EXPECT_THAT(ReadFile(absl::StrCat(kExamples, "/README.md")), HasSubstr("\n" + command + "\n"));
    const ProgramResult built = RunProgram(InFolder(language, command));
    ASSERT_EQ(built.exit_code, 0) << command << "\n" << built;
  }
  PrintsTheAnswer(language, kProfile, kMemoryBytes);
  PrintsTheAnswer(language, "analytic-gpt2small-8-1024", 5'000'000'000);  // has a provenance
  PrintsTheAnswer(language, kProfile, 1);
  NamesTheReasonAndTheField(language);
  SaysWhenToRetry(language);
  SpeaksTlsAndShowsItsToken(language);
  GoesOnToAnotherServerWhereOneIsKilled(language);
  AvoidsAServerThatIsNotHealthy(language);
}

TEST(ExampleInAnotherLanguage, Go) {
  TryExample(
      {.folder = "go",
       .needs = "Go 1.26 or later",
       .at_hand = "version=$(go env GOVERSION) && printf 'go1.26\\n%s\\n' $version | sort -VC",
       .fetch = "go mod download",
       .build = {"go generate", "go build -o solve"},
       .run = "./solve",
       .drained = "UNAVAILABLE: "});
}

TEST(ExampleInAnotherLanguage, Java) {
  TryExample({.folder = "java",
              .needs = "a JDK of 17 or later, and Maven",
              .at_hand = "javac --release 17 -version && mvn -version",
              .fetch = "mvn --batch-mode --quiet dependency:resolve dependency:resolve-plugins",
              .build = {"mvn --batch-mode --quiet compile"},
              .run = "java -cp 'target/classes:target/dependency/*' Solve",
              .drained = "UNAVAILABLE: "});
}

// Its client watches no health.
TEST(ExampleInAnotherLanguage, Node) {
  TryExample({.folder = "node",
              .needs = "Node and npm",
              .at_hand = "node --version && npm --version",
              .fetch = "npm ci --ignore-scripts",
              .build = {"npm ci --ignore-scripts"},
              .run = "node solve.js",
              .drained = "OPTIMAL: "});
}

}  // namespace
}  // namespace stowage::languages_test
