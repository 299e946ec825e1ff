// The operators' service against the real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "proto/convert/json.h"
#include "stowage/v1/operator.grpc.pb.h"
#include "tests/integration/metrics.h"
#include "tests/integration/rpc.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using grpc::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

constexpr const char* kToken = "an-operators-token-0123456789";

class OperatorTest : public testing::Test {
 protected:
  using Stub = v1::Operator::Stub;
  template <typename Request, typename Response>
  using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

  template <typename Request, typename Response>
  grpc::Status Call(Method<Request, Response> method, const Request& request, Response* response,
                    const std::string& token = kToken) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    if (!token.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
    return ((*stub_).*method)(&context, request, response);
  }
  v1::ListSolvesResponse ListSolves() {
    v1::ListSolvesResponse response;
    EXPECT_EQ(Text(Call(&Stub::ListSolves, v1::ListSolvesRequest(), &response)), "OK");
    return response;
  }

  const TempFolder folder_;
  ServerProcess server_{{"--operator-token-file",
                         folder_.Write("operators", absl::StrCat("oncall ", kToken)), "--cache-dir",
                         folder_.Path("cache"), "--grace", "100s"}};
  const Remote remote_{server_.address()};
  const std::unique_ptr<Stub> stub_ = v1::Operator::NewStub(remote_.channel());
};

TEST_F(OperatorTest, ListsSolvesAndCancelsOne) {
  EXPECT_EQ(ListSolves().solves_size(), 0);
  PendingSolve running(remote_, LongSolveRequest());
  WaitForMetric(server_, "stowage_solves_running", 1);
  const v1::ListSolvesResponse list = ListSolves();
  ASSERT_EQ(list.solves_size(), 1);
  const v1::SolveInFlight& solve = list.solves(0);
  EXPECT_EQ(solve.solver(), "periodic");
  EXPECT_EQ(solve.stages(), 10'000);
  EXPECT_EQ(solve.memory_bytes(), kTooLittleAtOnce);
  EXPECT_GT(solve.running_seconds(), 0);
  EXPECT_FALSE(solve.has_schedule());
  EXPECT_THAT(solve.clients(), ElementsAre("127.0.0.1"));
  EXPECT_EQ(solve.fingerprint().size(), 64);

  v1::CancelSolveRequest request;
  request.set_fingerprint(solve.fingerprint());
  v1::CancelSolveResponse response;
  EXPECT_EQ(Text(Call(&Stub::CancelSolve, request, &response)), "OK");
  EXPECT_EQ(response.solves(), 1);
  EXPECT_EQ(response.callers(), 1);
  const grpc::Status ended = running.Wait();
  EXPECT_EQ(ended.error_code(), StatusCode::ABORTED) << Text(ended);
  EXPECT_THAT(ended.error_message(), HasSubstr("an operator"));
  WaitForMetric(server_, "stowage_solves_running", 0);
  EXPECT_EQ(ListSolves().solves_size(), 0);
  EXPECT_EQ(Call(&Stub::CancelSolve, request, &response).error_code(), StatusCode::NOT_FOUND);
  EXPECT_NE(server_.WaitForLogLine({"event=operator", "action=cancel_solve", "operator=oncall",
                                    absl::StrCat("target=", solve.fingerprint())}),
            "");
}

TEST_F(OperatorTest, ListsAFrontierAndCancelsIt) {
  v1::FrontierRequest request;
  *request.mutable_chain() = LongSolveRequest().chain();
  std::future<grpc::Status> frontier = std::async(std::launch::async, [&] {
    v1::FrontierResponse response;
    return remote_.Frontier(request, &response);
  });
  WaitForMetric(server_, "stowage_solves_running", 1);
  const v1::ListSolvesResponse list = ListSolves();
  ASSERT_EQ(list.solves_size(), 1);
  EXPECT_TRUE(list.solves(0).is_frontier());
  EXPECT_EQ(list.solves(0).stages(), 10'000);
  EXPECT_THAT(list.solves(0).clients(), ElementsAre("127.0.0.1"));
  v1::CancelSolveRequest cancel;
  cancel.set_fingerprint(list.solves(0).fingerprint());
  v1::CancelSolveResponse response;
  EXPECT_EQ(Text(Call(&Stub::CancelSolve, cancel, &response)), "OK");
  EXPECT_EQ(response.solves(), 1);
  EXPECT_EQ(frontier.get().error_code(), StatusCode::ABORTED);
  WaitForMetric(server_, "stowage_solves_running", 0);
  EXPECT_EQ(ListSolves().solves_size(), 0);
}

TEST_F(OperatorTest, DropsACachedAnswerFromMemoryAndDisk) {
  v1::SolveRequest solve = SmallSolveRequest();
  solve.mutable_options()->set_use_cache(true);
  const auto source = [&] {
    v1::SolveResponse response;
    EXPECT_EQ(Text(remote_.Solve(solve, &response)), "OK");
    return response.origin().source();
  };
  v1::SolveResponse response;
  ASSERT_EQ(Text(remote_.Solve(solve, &response)), "OK");
  EXPECT_EQ(source(), v1::Origin::MEMORY_CACHE);
  EXPECT_EQ(source(), v1::Origin::MEMORY_CACHE);  // the response, too
  WaitForMetric(server_, "stowage_cache_entries{tier=\"disk\"}", 1);
  v1::DropAnswerRequest drop;
  drop.set_fingerprint(response.origin().fingerprint());
  v1::DropAnswerResponse dropped;
  EXPECT_EQ(Text(Call(&Stub::DropAnswer, drop, &dropped)), "OK");
  EXPECT_EQ(MetricOf(server_, "stowage_cache_entries{tier=\"disk\"}"), 0);
  EXPECT_EQ(source(), v1::Origin::SOLVED);
  drop.set_fingerprint("not a fingerprint");
  const grpc::Status refused = Call(&Stub::DropAnswer, drop, &dropped);
  EXPECT_EQ(refused.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("fingerprint: "));
}

TEST_F(OperatorTest, DropsACachedFrontier) {
  v1::FrontierRequest request;
  *request.mutable_chain() = SmallSolveRequest().chain();
  request.set_points(3);
  v1::FrontierResponse frontier;
  const auto source = [&] {
    EXPECT_EQ(Text(remote_.Frontier(request, &frontier)), "OK");
    return frontier.origin().source();
  };
  EXPECT_EQ(source(), v1::Origin::SOLVED);
  const std::string fingerprint = frontier.origin().fingerprint();
  EXPECT_EQ(source(), v1::Origin::MEMORY_CACHE);
  EXPECT_EQ(frontier.origin().fingerprint(), fingerprint);
  v1::DropAnswerRequest drop;
  drop.set_fingerprint(fingerprint);
  v1::DropAnswerResponse dropped;
  EXPECT_EQ(Text(Call(&Stub::DropAnswer, drop, &dropped)), "OK");
  EXPECT_EQ(Call(&Stub::DropAnswer, drop, &dropped).error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(source(), v1::Origin::SOLVED);
  EXPECT_NE(server_.WaitForLogLine(
                {"method=Frontier", "source=SOLVED", absl::StrCat("fingerprint=", fingerprint)}),
            "");
}

TEST_F(OperatorTest, SetsTheLogLevel) {
  const auto set = [this](const char* level) {
    v1::SetLogLevelRequest request;
    request.set_level(level);
    v1::SetLogLevelResponse response;
    return Call(&Stub::SetLogLevel, request, &response);
  };
  v1::SolveRequest solve = SmallSolveRequest();
  solve.mutable_options()->set_use_cache(true);
  v1::SolveResponse response;
  EXPECT_EQ(Text(set("debug")), "OK");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Text(remote_.Solve(solve, &response)), "OK");
  EXPECT_NE(server_.WaitForLogLine({"level=debug", "source=MEMORY_CACHE"}), "");
  const grpc::Status refused = set("loud");
  EXPECT_EQ(refused.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("debug, info, warning, error"));
}

TEST_F(OperatorTest, TellsTheStatusSinceAnEarlierOne) {
  v1::ServerStatus first;
  EXPECT_EQ(Text(Call(&Stub::GetStatus, v1::GetStatusRequest(), &first)), "OK");
  EXPECT_TRUE(first.ready());
  EXPECT_FALSE(first.has_last());
  EXPECT_TRUE(remote_.Answers());
  v1::GetStatusRequest since;
  since.set_since_seconds(first.uptime_seconds());
  v1::ServerStatus second;
  EXPECT_EQ(Text(Call(&Stub::GetStatus, since, &second)), "OK");
  ASSERT_EQ(second.last().calls_size(), 1);
  EXPECT_EQ(second.last().calls(0).method(), "Solve");
  EXPECT_EQ(second.last().calls(0).calls(), 1);
}

TEST_F(OperatorTest, Drains) {
  v1::DrainResponse response;
  EXPECT_EQ(Text(Call(&Stub::Drain, v1::DrainRequest(), &response)), "OK");
  EXPECT_THAT(server_.WaitForExit(), Optional(0));
  EXPECT_THAT(server_.Log(), HasSubstr("event=draining"));
}

TEST_F(OperatorTest, RefusesEverybodyElse) {
  for (const char* token : {"", "another-token-0123456789"}) {
    v1::DrainResponse response;
    const grpc::Status refused = Call(&Stub::Drain, v1::DrainRequest(), &response, token);
    EXPECT_EQ(refused.error_code(), StatusCode::UNAUTHENTICATED) << Text(refused);
  }
  EXPECT_TRUE(remote_.Answers());
  EXPECT_EQ(MetricOf(server_,
                     "stowage_operator_actions_total{action=\"drain\","
                     "grpc_code=\"Unauthenticated\"}"),
            2);
}

TEST_F(OperatorTest, RefusesLongRequestsUnread) {
  const std::string bytes(5000, '\n');
  for (const char* method : {"ListSolves", "DropAnswer"}) {
    const grpc::Status refused =
        remote_.SendRaw(absl::StrCat("/stowage.v1.Operator/", method), bytes, kToken);
    EXPECT_EQ(refused.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(refused.error_message(), HasSubstr("5000 bytes; at most 4096"));
  }
  const grpc::Status no_message = remote_.SendRaw("/stowage.v1.Operator/Drain", "\x0a", kToken);
  EXPECT_EQ(no_message.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(no_message.error_message(), HasSubstr("not a stowage.v1.DrainRequest"));
}

TEST(OperatorService, GuessesOfOneHostAreLimitedAndOperatorsActMeanwhile) {
  const TempFolder folder;
  ServerProcess server({"--operator-token-file",
                        folder.Write("operators", absl::StrCat("oncall ", kToken)), "--client-rate",
                        "1"});
  const auto list_with = [&server](const std::string& token) {
    return Remote(server.address()).SendRaw("/stowage.v1.Operator/ListSolves", "", token);
  };
  constexpr int kGuesses = 8;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::future<grpc::Status>> guesses;
  for (int i = 0; i < kGuesses; ++i) {
    guesses.push_back(std::async(std::launch::async, list_with, "a-guessed-token-0123456789"));
  }
  int above_the_rate = 0;
  for (std::future<grpc::Status>& guess : guesses) {
    const grpc::Status refused = guess.get();
    if (refused.error_code() == StatusCode::RESOURCE_EXHAUSTED) {
      ++above_the_rate;
    } else {
      EXPECT_EQ(refused.error_code(), StatusCode::UNAUTHENTICATED) << Text(refused);
    }
  }
  EXPECT_GE(above_the_rate, 1);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  EXPECT_EQ(Text(list_with(kToken)), "OK");
}

// The same from the command line.
class OperatorCommandTest : public OperatorTest {
 protected:
  ProgramResult Operate(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {Program("stowage"), "operator"});
    arguments.insert(arguments.end(), {"--server", server_.address(), "--token-file",
                                       folder_.Write("token", kToken)});
    return RunProgram(arguments);
  }
};

MATCHER_P(Prints, text, "") {
  return arg.exit_code == 0 && arg.err.empty() && arg.out.find(text) != std::string::npos;
}

MATCHER_P(FailsSaying, text, "") {
  return arg.exit_code == 1 && arg.out.empty() && arg.err.find(text) != std::string::npos;
}

TEST_F(OperatorCommandTest, ListsSolvesAndCancelsOne) {
  EXPECT_THAT(Operate({"solves"}), Prints("no solves in flight"));
  PendingSolve running(remote_, LongSolveRequest());
  WaitForMetric(server_, "stowage_solves_running", 1);
  const ProgramResult list = Operate({"solves"});
  EXPECT_THAT(list, Prints("periodic"));
  EXPECT_THAT(list, Prints("127.0.0.1"));
  v1::ListSolvesResponse solves;
  ASSERT_TRUE(FromJson(Operate({"solves", "--format", "json"}).out, "output", &solves).ok());
  ASSERT_EQ(solves.solves_size(), 1);
  const std::string& fingerprint = solves.solves(0).fingerprint();
  EXPECT_THAT(list, Prints(fingerprint));
  EXPECT_THAT(Operate({"cancel", fingerprint}),
              Prints("solves stopped: 1; callers that got ABORTED: 1"));
  EXPECT_EQ(running.Wait().error_code(), StatusCode::ABORTED);
  EXPECT_THAT(Operate({"cancel", fingerprint}), FailsSaying("no solve in flight has it"));
  EXPECT_THAT(Operate({"cancel", "12ab"}), FailsSaying("64 hexadecimal digits"));
}

TEST_F(OperatorCommandTest, DropsAnAnswerSetsTheLogLevelAndDrains) {
  v1::SolveRequest solve = SmallSolveRequest();
  solve.mutable_options()->set_use_cache(true);
  v1::SolveResponse response;
  ASSERT_EQ(Text(remote_.Solve(solve, &response)), "OK");
  const std::string& fingerprint = response.origin().fingerprint();
  EXPECT_THAT(Operate({"drop", fingerprint}), Prints("dropped"));
  EXPECT_THAT(Operate({"drop", fingerprint}), FailsSaying("no cached answer has it"));
  EXPECT_THAT(Operate({"log-level", "debug"}), Prints("debug"));
  // Whatever the level is.
  EXPECT_THAT(Operate({"log-level", "error"}), Prints("error"));
  EXPECT_NE(server_.WaitForLogLine({"event=operator", "action=set_log_level", "target=error"}), "");
  EXPECT_THAT(Operate({"drain"}), Prints("drains"));
  EXPECT_THAT(server_.WaitForExit(), Optional(0));
}

TEST_F(OperatorCommandTest, MayDrainTwice) {
  PendingSolve running(remote_, LongSolveRequest());
  WaitForMetric(server_, "stowage_solves_running", 1);
  EXPECT_THAT(Operate({"drain"}), Prints("drains"));
  ASSERT_NE(server_.WaitForLogLine({"event=draining"}), "");
  EXPECT_THAT(Operate({"drain"}), Prints("drains"));
  EXPECT_FALSE(running.ended());
  running.Cancel();
  running.Wait();
  EXPECT_THAT(server_.WaitForExit(), Optional(0));
}

TEST_F(OperatorCommandTest, SaysWhatIsMissing) {
  const ProgramResult no_token =
      RunProgram({Program("stowage"), "operator", "solves", "--server", server_.address()});
  EXPECT_THAT(no_token, FailsSaying("--token-file of stowage"));
  ServerProcess without;
  EXPECT_THAT(RunProgram({Program("stowage"), "operator", "solves", "--server", without.address()}),
              FailsSaying("--operator-token-file"));
  EXPECT_THAT(Operate({"solves", "--server", without.address()}), FailsSaying("one server"));
}

TEST(OperatorService, IsNotServedWithoutItsTokens) {
  ServerProcess server;
  const Remote remote(server.address());
  grpc::ClientContext context;
  v1::ListSolvesResponse response;
  const auto stub = v1::Operator::NewStub(remote.channel());
  EXPECT_EQ(stub->ListSolves(&context, v1::ListSolvesRequest(), &response).error_code(),
            StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace stowage
