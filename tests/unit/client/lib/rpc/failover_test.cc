#include "client/lib/rpc/failover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/lib/rpc/failure.h"
#include "client/lib/rpc/retry.h"
#include "tests/support/rules.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::Optional;
using testing::SizeIs;
using testing::StrEq;

absl::Status Dead() { return absl::UnavailableError("no answer"); }

absl::Status Full(double advice) {
  absl::Status status = absl::ResourceExhaustedError("the queue is full");
  SetAdvisedPause(advice, &status);
  return status;
}

// Its connection broke in mid-call.
absl::Status Broken() {
  absl::Status status = absl::UnavailableError("no answer (Socket closed)");
  SetCause(FailureCause::kBrokenConnection, &status);
  return status;
}

// The caller has as many solves as it may.
absl::Status AboveItsLimit(double advice) {
  absl::Status status = Full(advice);
  SetCause(FailureCause::kCallersLimit, &status);
  return status;
}

// Servers "a", "b", "c", of which each says what the test sets, after as long as the test sets; no
// real time passes. A server that is not set answers at once.
class FailoverTest : public testing::Test {
 protected:
  struct Tried {
    std::string server;
    std::optional<double> timeout_seconds;
  };

  void Use(std::vector<std::string> servers, uint32_t seed = 0) {
    servers_ = std::move(servers);
    failover_.emplace(FailoverOptions{.servers = servers_, .patience_seconds = 3, .seed = seed},
                      Time());
  }
  FailoverTime Time() {
    return {.now = [this] { return now_; },
            .sleep =
                [this](std::chrono::duration<double> pause) {
                  pauses_.push_back(pause.count());
                  Pass(pause.count());
                }};
  }

  // The first `count` of those servers.
  void Use(std::vector<std::string> servers, int count, double patience) {
    servers.resize(static_cast<size_t>(count));
    servers_ = std::move(servers);
    failover_.emplace(FailoverOptions{.servers = servers_, .patience_seconds = patience, .seed = 0},
                      Time());
  }

  // The same, whatever the server.
  absl::Status CallWith(std::optional<double> timeout_seconds, Failover::Rule rule,
                        const std::function<absl::Status()>& attempt) {
    tried_.clear();
    pauses_.clear();
    return failover_->Call(timeout_seconds, rule, [&](size_t server, std::optional<double> left) {
      tried_.push_back({servers_[server], left});
      return attempt();
    });
  }

  absl::Status Call(std::optional<double> timeout_seconds = std::nullopt,
                    Failover::Rule rule = IsRetryable) {
    tried_.clear();
    pauses_.clear();
    return failover_->Call(timeout_seconds, rule,
                           [this](size_t server, std::optional<double> left) {
                             const std::string& name = servers_[server];
                             tried_.push_back({name, left});
                             Pass(seconds_[name]);
                             return says_[name];
                           });
  }

  void Pass(double seconds) {
    now_ += std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(seconds));
  }
  double Elapsed() const { return std::chrono::duration<double>(now_.time_since_epoch()).count(); }

  std::vector<std::string> TriedServers() const {
    std::vector<std::string> names;
    for (const Tried& tried : tried_) names.push_back(tried.server);
    return names;
  }
  // In the order in which they are tried.
  std::vector<std::string> Order() {
    for (const std::string& server : servers_) says_[server] = Dead();
    EXPECT_FALSE(Call(0.03).ok());  // too short for a pause
    for (const std::string& server : servers_) says_[server] = absl::OkStatus();
    return TriedServers();
  }

  std::map<std::string, absl::Status> says_;
  std::map<std::string, double> seconds_;  // that an attempt takes
  std::vector<Tried> tried_;               // by the last call
  std::vector<double> pauses_;             // of the last call
  std::optional<Failover> failover_;

 private:
  std::vector<std::string> servers_;
  std::chrono::steady_clock::time_point now_;
};

// What an attempt of a shared rule ends with: "FULL 0.5" advises half a second.
absl::Status Said(const std::string& text) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  const std::string& word = words.front();
  if (word == "OK") return absl::OkStatus();
  if (word == "DEAD") return Dead();
  if (word == "BROKEN") return Broken();
  if (word == "FULL") return Full(std::stod(words.at(1)));
  if (word == "LIMITED") return AboveItsLimit(std::stod(words.at(1)));
  if (word == "LATE") return absl::DeadlineExceededError("too late");
  if (word == "INVALID") return absl::InvalidArgumentError("chain: is wrong");
  if (word != "REFUSED") throw std::invalid_argument(text);
  absl::Status refused = absl::UnavailableError("refused");
  SetNotSent(&refused);
  return refused;
}

TEST_F(FailoverTest, FollowsTheSharedRules) {
  for (const nlohmann::json& rule : RuleCases("failover")) {
    SCOPED_TRACE(rule.at("name").get<std::string>());
    const int servers = rule.at("servers");
    Use({"a", "b", "c", "d", "e"}, servers, rule.at("patience"));
    const auto says = rule.at("says").get<std::vector<std::string>>();
    const double begin = Elapsed();
    const absl::Status end =
        CallWith(rule.at("timeout").is_null() ? std::nullopt
                                              : std::optional(rule.at("timeout").get<double>()),
                 rule.at("rule") == "WAS_NOT_SENT" ? WasNotSent : IsRetryable, [&] {
                   Pass(rule.at("attempt_seconds").get<double>());
                   return Said(says[std::min(tried_.size(), says.size()) - 1]);
                 });
    const double seconds = Elapsed() - begin;
    EXPECT_EQ(absl::StatusCodeToString(end.code()), rule.at("ends"));
    if (!rule.at("attempts").is_null()) {
      EXPECT_THAT(tried_, SizeIs(rule.at("attempts").get<size_t>()));
    }
    if (!rule.at("pauses").is_null()) {
      EXPECT_THAT(pauses_, SizeIs(rule.at("pauses").get<size_t>()));
    }
    EXPECT_GE(seconds, rule.at("least_seconds").get<double>() - 1e-6);
    if (!rule.at("most_seconds").is_null()) {
      EXPECT_LE(seconds, rule.at("most_seconds").get<double>() + 1e-6);
    }
    if (!rule.at("message").is_null()) {
      EXPECT_THAT(std::string(end.message()), HasSubstr(rule.at("message").get<std::string>()));
    }
  }
}

TEST_F(FailoverTest, BeginsAtARandomServer) {
  std::map<std::string, int> firsts;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Use({"a", "b", "c"}, seed);
    ASSERT_THAT(Call(), IsOk());
    ASSERT_THAT(tried_, SizeIs(1));
    ++firsts[tried_.front().server];
  }
  for (const char* server : {"a", "b", "c"}) EXPECT_GT(firsts[server], 60) << server;
}

TEST_F(FailoverTest, TriesTheNextServerAtOnce) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    Use({"a", "b", "c"}, seed);
    says_["a"] = says_["b"] = Dead();
    EXPECT_THAT(Call(), IsOk());
    EXPECT_THAT(tried_, SizeIs(Le(3)));
    EXPECT_EQ(tried_.back().server, "c");
    EXPECT_THAT(pauses_, IsEmpty());
  }
}

TEST_F(FailoverTest, BeginsAtTheServerThatAnsweredLast) {
  Use({"a", "b"});
  says_["a"] = Dead();
  EXPECT_THAT(Call(), IsOk());
  says_["a"] = absl::OkStatus();
  EXPECT_THAT(Call(), IsOk());
  EXPECT_THAT(TriedServers(), ElementsAre("b"));
  // An error of the request is an answer, too.
  says_["b"] = absl::InvalidArgumentError("chain.stages: is empty");
  EXPECT_TRUE(absl::IsInvalidArgument(Call()));
  EXPECT_TRUE(absl::IsInvalidArgument(Call()));
  EXPECT_THAT(TriedServers(), ElementsAre("b"));
}

TEST_F(FailoverTest, DoesNotBeginAtAServerThatHangs) {
  Use({"a", "b"});
  says_["a"] = Dead();
  EXPECT_THAT(Call(), IsOk());
  says_["a"] = absl::OkStatus();
  says_["b"] = absl::DeadlineExceededError("b did not answer within 5 s");
  EXPECT_TRUE(absl::IsDeadlineExceeded(Call(5)));
  EXPECT_THAT(Call(5), IsOk());
  EXPECT_THAT(TriedServers(), ElementsAre("a"));
}

TEST_F(FailoverTest, PausesAfterAllServersAndGoesRoundAgain) {
  Use({"a", "b"});
  says_["a"] = says_["b"] = Dead();
  EXPECT_TRUE(absl::IsUnavailable(Call()));
  ASSERT_GE(tried_.size(), 6);
  EXPECT_EQ(tried_.size(), 2 * (pauses_.size() + 1));
  for (size_t i = 0; i < tried_.size(); ++i) EXPECT_NE(tried_[i].server, tried_[i ^ 1].server);
  EXPECT_THAT(pauses_.front(), AllOf(Ge(0.05), Le(0.1)));
}

TEST_F(FailoverTest, GivesUpAfterItsPatienceWhereNobodyAnswers) {
  Use({"a"});
  says_["a"] = Dead();
  EXPECT_TRUE(absl::IsUnavailable(Call()));
  EXPECT_THAT(Elapsed(), AllOf(Ge(1), Le(3)));
  // A long timeout does not keep anybody waiting for a server that is not there.
  EXPECT_TRUE(absl::IsUnavailable(Call(1000)));
  EXPECT_THAT(Elapsed(), Le(6));
}

TEST_F(FailoverTest, CountsItsPatienceFromTheFirstFailure) {
  Use({"a", "b"});
  says_["a"] = says_["b"] = Dead();
  seconds_["a"] = seconds_["b"] = 30;  // each server ends in the middle of the call
  EXPECT_TRUE(absl::IsUnavailable(Call()));
  EXPECT_THAT(tried_, SizeIs(2));
}

TEST_F(FailoverTest, FollowsTheAdviceOfAFullServerUntilTheTimeout) {
  Use({"a"});
  says_["a"] = Full(1);
  const absl::Status status = Call(60);
  EXPECT_THAT(status, Fails(absl::StatusCode::kResourceExhausted, "the queue is full"));
  EXPECT_THAT(AdvisedPause(status), Optional(1));
  EXPECT_THAT(pauses_, Each(Ge(1)));
  EXPECT_THAT(Elapsed(), AllOf(Ge(50), Le(60)));
}

TEST_F(FailoverTest, GivesUpOnAFullServerAfterAWhileWhereThereIsNoTimeout) {
  Use({"a"});
  says_["a"] = Full(1);
  EXPECT_TRUE(absl::IsResourceExhausted(Call()));
  EXPECT_THAT(Elapsed(), AllOf(Ge(7), Le(10)));
}

TEST_F(FailoverTest, AsksTheNextServerAtOnceWhereOneIsFull) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    Use({"a", "b"}, seed);
    says_["a"] = Full(2);
    EXPECT_THAT(Call(20), IsOk());
    EXPECT_EQ(tried_.back().server, "b");
    EXPECT_THAT(pauses_, IsEmpty());
  }
}

TEST_F(FailoverTest, PausesUntilTheFirstServerAdvisesToComeBack) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    Use({"a", "b", "c"}, seed);
    says_["a"] = Full(6);
    says_["b"] = Full(2);
    says_["c"] = Dead();
    EXPECT_FALSE(Call(20).ok());
    EXPECT_THAT(pauses_, Each(AllOf(Ge(2), Le(3))));
    EXPECT_EQ(tried_.size(), 3 * (pauses_.size() + 1));
  }
}

// A request that ends every server that it reaches.
TEST_F(FailoverTest, RepeatsACallThatBreaksConnectionsOnce) {
  for (const std::vector<std::string>& servers : {std::vector<std::string>{"a"}, {"a", "b", "c"}}) {
    Use(servers);
    for (const std::string& server : servers) says_[server] = Broken();
    EXPECT_TRUE(absl::IsUnavailable(Call(1000)));
    EXPECT_THAT(tried_, SizeIs(2));
  }
}

TEST_F(FailoverTest, AsksTheNextServerAtOnceWhereOneBreaksOff) {
  Use({"a", "b", "c"});
  const std::vector<std::string> order = Order();
  says_[order[0]] = Broken();
  says_[order[1]] = Dead();
  EXPECT_THAT(Call(), IsOk());
  EXPECT_EQ(TriedServers(), order);
  EXPECT_THAT(pauses_, IsEmpty());
}

TEST_F(FailoverTest, PausesBeforeTheNextServerWhereTheCallerIsAboveItsLimit) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    Use({"a", "b", "c"}, seed);
    for (const char* server : {"a", "b", "c"}) says_[server] = AboveItsLimit(2);
    EXPECT_TRUE(absl::IsResourceExhausted(Call(20)));
    EXPECT_THAT(pauses_, Each(Ge(2)));
    EXPECT_EQ(tried_.size(), pauses_.size() + 1);
  }
}

TEST_F(FailoverTest, FollowsTheAdviceAboutTheCallersLimitNotAnEarlierOne) {
  Use({"a", "b", "c"});
  const std::vector<std::string> order = Order();
  says_[order[0]] = Full(0.5);
  says_[order[1]] = AboveItsLimit(2);
  EXPECT_THAT(Call(20), IsOk());
  EXPECT_EQ(TriedServers(), order);
  EXPECT_THAT(pauses_, ElementsAre(Ge(2)));
}

TEST_F(FailoverTest, EndsWithoutATimeoutWhereOneIsFullAndTheOtherDead) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    Use({"a", "b"}, seed);
    says_["a"] = Full(1);
    says_["b"] = Dead();
    const double begin = Elapsed();
    EXPECT_FALSE(Call().ok());
    EXPECT_THAT(Elapsed() - begin, Le(10));
  }
}

TEST_F(FailoverTest, DoesNotRepeatWhatItMayNot) {
  for (const absl::Status& status :
       {absl::InvalidArgumentError("no"), absl::UnauthenticatedError("no"),
        absl::DeadlineExceededError("no"), absl::CancelledError("no"), absl::AbortedError("no"),
        absl::InternalError("no"), absl::ResourceExhaustedError("no")}) {
    Use({"a", "b"});
    says_["a"] = says_["b"] = status;
    EXPECT_EQ(Call(10), status);
    EXPECT_THAT(tried_, SizeIs(1)) << status;
  }
}

TEST_F(FailoverTest, LeavesTheRuleToTheCaller) {
  Use({"a", "b"});
  says_["a"] = says_["b"] = Dead();
  EXPECT_EQ(Call(10, [](const absl::Status&) { return false; }), Dead());
  EXPECT_THAT(tried_, SizeIs(1));
}

TEST_F(FailoverTest, GivesEachAttemptTheTimeThatIsLeft) {
  Use({"a", "b", "c"});
  const std::vector<std::string> order = Order();
  says_[order[0]] = says_[order[1]] = Dead();
  seconds_[order[0]] = 2;
  seconds_[order[1]] = 3;
  EXPECT_THAT(Call(10), IsOk());
  ASSERT_THAT(tried_, SizeIs(3));
  EXPECT_EQ(tried_[0].timeout_seconds, 10);
  EXPECT_DOUBLE_EQ(*tried_[1].timeout_seconds, 8);
  EXPECT_DOUBLE_EQ(*tried_[2].timeout_seconds, 5);
  EXPECT_THAT(Call(), IsOk());
  EXPECT_FALSE(tried_.front().timeout_seconds.has_value());
}

TEST_F(FailoverTest, TriesNoFurtherServerOnceTheTimeIsUp) {
  Use({"a", "b", "c"});
  const std::vector<std::string> order = Order();
  for (const std::string& server : order) {
    says_[server] = Dead();
    seconds_[server] = 5;
  }
  const double begin = Elapsed();
  EXPECT_TRUE(absl::IsUnavailable(Call(10)));
  EXPECT_THAT(TriedServers(), ElementsAre(order[0], order[1]));
  EXPECT_DOUBLE_EQ(Elapsed() - begin, 10);
}

TEST_F(FailoverTest, NeverPausesBeyondTheTimeout) {
  Use({"a"});
  says_["a"] = Full(3600);
  EXPECT_TRUE(absl::IsResourceExhausted(Call(60)));
  EXPECT_THAT(tried_, SizeIs(1));
  EXPECT_EQ(Elapsed(), 0);
}

TEST_F(FailoverTest, SaysWhatEveryServerSaid) {
  Use({"a.example:1", "b.example:1", "c.example:1"});
  says_["a.example:1"] = absl::UnavailableError("no answer from a server at a.example:1 (gone)");
  says_["b.example:1"] = absl::UnavailableError("the server is draining");
  says_["c.example:1"] = Full(1);
  const absl::Status status = Call();
  EXPECT_EQ(status.message(),
            "no answer from a server at a.example:1 (gone); b.example:1: the server is draining; "
            "c.example:1: the queue is full");
}

TEST_F(FailoverTest, TheErrorOfSeveralServersKeepsTheAdvice) {
  Use({"a", "b"});
  says_["a"] = says_["b"] = Full(3);
  const absl::Status status = Call(2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("; b: the queue is full"));
  EXPECT_THAT(AdvisedPause(status), Optional(3));
}

TEST_F(FailoverTest, TheErrorOfSeveralServersHasTheFirstOfTheirObstacles) {
  absl::Status no_tls = Dead();
  SetObstacle(Obstacle::kTls, &no_tls);
  absl::Status none = Dead();
  SetObstacle(Obstacle::kNoServer, &none);
  for (const char* server : {"a", "b"}) {
    Use({"a", "b"});
    says_["a"] = says_["b"] = none;
    says_[server] = no_tls;
    EXPECT_EQ(ObstacleOf(Call()), Obstacle::kTls) << server;
  }
}

TEST_F(FailoverTest, ATimeoutAfterRefusalsSaysWhatTheyWere) {
  Use({"a"});
  int calls = 0;
  const absl::Status status =
      failover_->Call(10, IsRetryable, [&calls](size_t, std::optional<double>) {
        return ++calls < 3 ? Full(1) : absl::DeadlineExceededError("no answer within 2 s");
      });
  EXPECT_THAT(status, Fails(absl::StatusCode::kDeadlineExceeded,
                            StrEq("no answer within 2 s; before that: the queue is full")));
}

TEST_F(FailoverTest, AnErrorOfTheTimeoutNamesTheServersThatFailedBefore) {
  Use({"a:1", "b:1"});
  const std::vector<std::string> order = Order();
  says_[order[0]] = Dead();
  says_[order[1]] = absl::DeadlineExceededError("did not answer within 5 s");
  EXPECT_THAT(Call(5), Fails(absl::StatusCode::kDeadlineExceeded,
                             AllOf(HasSubstr(order[0] + ": no answer"),
                                   HasSubstr(order[1] + ": did not answer within 5 s"))));
}

TEST_F(FailoverTest, AnErrorOfTheRequestIsNotMixedWithFailuresBeforeIt) {
  Use({"a:1", "b:1"});
  const std::vector<std::string> order = Order();
  says_[order[0]] = Dead();
  says_[order[1]] = absl::InvalidArgumentError("chain.stages: is empty");
  EXPECT_THAT(Call(), Fails(absl::StatusCode::kInvalidArgument, StrEq("chain.stages: is empty")));
}

TEST(Failover, TakesCallsFromManyThreads) {
  Failover failover({.servers = {"a", "b", "c"}, .seed = 1});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&failover] {
      for (int j = 0; j < 1000; ++j) {
        EXPECT_THAT(failover.Call(std::nullopt, IsRetryable,
                                  [j](size_t server, std::optional<double>) {
                                    return server == static_cast<size_t>(j) % 3 ? absl::OkStatus()
                                                                                : Dead();
                                  }),
                    IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace stowage
