#include "client/lib/rpc/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/lib/rpc/failure.h"
#include "google/rpc/error_details.pb.h"
#include "stowage/v1/errors.pb.h"
#include "tests/support/rules.h"

namespace stowage {
namespace {

using testing::HasSubstr;

// As gRPC reports them; tests/integration/failover_test.cc has real ones.
constexpr const char* kRefused =
    "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to connect "
    "to remote host: Connection refused";
constexpr const char* kDied = "Socket closed";
constexpr const char* kNoTls =
    "failed to connect to all addresses; last error: UNKNOWN: Ssl handshake failed: SSL_ERROR_SSL";

absl::Status Unavailable(const char* text) {
  const Connection connection("127.0.0.1:1", {}, 1);
  return connection.FromGrpc({grpc::StatusCode::UNAVAILABLE, text}, std::nullopt);
}

// The error of a Stowage server.
absl::Status FromServer(grpc::StatusCode code, const char* reason, const char* message,
                        const v1::Violations& violations = {}) {
  google::rpc::ErrorInfo info;
  info.set_domain("stowage");
  info.set_reason(reason);
  v1::ErrorStatus details;
  details.add_details()->PackFrom(info);
  if (violations.violations_size() > 0) details.add_details()->PackFrom(violations);
  const Connection connection("127.0.0.1:1", {}, 1);
  return connection.FromGrpc({code, message, details.SerializeAsString()}, std::nullopt);
}

absl::Status Draining() {
  return FromServer(grpc::StatusCode::UNAVAILABLE, "DRAINING", "draining; ask another server");
}

TEST(FromGrpc, TellsTheCallersTimeLimitFromTheServers) {
  const Connection connection("127.0.0.1:1", {}, 1);
  const grpc::Status late(grpc::StatusCode::DEADLINE_EXCEEDED, "no schedule within its 3 s");
  EXPECT_EQ(connection.FromGrpc(late, std::nullopt).message(), "no schedule within its 3 s");
  EXPECT_THAT(connection.FromGrpc(late, 5).message(), HasSubstr("did not answer within 5 s"));
}

// The failure of a call of which no Stowage server says why.
absl::Status FailureFor(const nlohmann::json& rule) {
  static const std::map<std::string, grpc::StatusCode> codes = {
      {"UNAVAILABLE", grpc::StatusCode::UNAVAILABLE},
      {"UNKNOWN", grpc::StatusCode::UNKNOWN},
      {"INTERNAL", grpc::StatusCode::INTERNAL},
      {"CANCELLED", grpc::StatusCode::CANCELLED},
      {"RESOURCE_EXHAUSTED", grpc::StatusCode::RESOURCE_EXHAUSTED},
      {"DEADLINE_EXCEEDED", grpc::StatusCode::DEADLINE_EXCEEDED},
      {"UNIMPLEMENTED", grpc::StatusCode::UNIMPLEMENTED}};
  const Connection connection("127.0.0.1:1", {}, 1);
  return connection.FromGrpc({codes.at(rule.at("code")), rule.at("text").get<std::string>()},
                             std::nullopt);
}

TEST(FromGrpc, FollowsTheSharedRules) {
  const std::map<std::string, FailureCause> causes = {
      {"OTHER", FailureCause::kOther}, {"BROKEN_CONNECTION", FailureCause::kBrokenConnection}};
  const std::map<std::string, Obstacle> obstacles = {{"TLS", Obstacle::kTls},
                                                     {"CLOSED", Obstacle::kClosed},
                                                     {"KEY", Obstacle::kKey},
                                                     {"NO_SERVER", Obstacle::kNoServer},
                                                     {"NONE", Obstacle::kNone}};
  for (const nlohmann::json& rule : RuleCases("grpc_failures")) {
    const absl::Status failure = FailureFor(rule);
    EXPECT_EQ(absl::StatusCodeToString(failure.code()), rule.at("becomes")) << rule;
    EXPECT_EQ(CauseOf(failure), causes.at(rule.at("cause"))) << rule;
    EXPECT_EQ(ObstacleOf(failure), obstacles.at(rule.at("obstacle"))) << rule;
    EXPECT_EQ(WasNotSent(failure), rule.at("not_sent").get<bool>()) << rule;
  }
}

TEST(FromGrpc, LeavesAServersOwnErrorsAlone) {
  EXPECT_EQ(CauseOf(Draining()), FailureCause::kOther);
  EXPECT_TRUE(absl::IsInternal(
      FromServer(grpc::StatusCode::INTERNAL, "INTERNAL", "Received RST_STREAM with error code 2")));
}

TEST(FromGrpc, TellsAServersErrorByItsReasonNotByItsWords) {
  constexpr const char* kText = "the server is draining; ask another server";
  EXPECT_EQ(FromServer(grpc::StatusCode::UNAVAILABLE, "DRAINING", kText).message(),
            absl::StrCat("127.0.0.1:1: ", kText));
  EXPECT_EQ(Unavailable(kText).message(),
            absl::StrCat("no answer from a server at 127.0.0.1:1 (", kText, ")"));
}

TEST(FromGrpc, TellsTheCallersLimitsFromTheServers) {
  const auto cause = [](const char* reason) {
    const absl::Status status =
        FromServer(grpc::StatusCode::RESOURCE_EXHAUSTED, reason, "message larger than max");
    EXPECT_EQ(status.message(), "message larger than max") << "the server's own words stay";
    EXPECT_EQ(ReasonOf(status), reason);
    return CauseOf(status);
  };
  EXPECT_EQ(cause("CLIENT_RATE"), FailureCause::kCallersLimit);
  EXPECT_EQ(cause("CLIENT_LIMIT"), FailureCause::kCallersLimit);
  EXPECT_EQ(cause("QUEUE_FULL"), FailureCause::kOther);
}

TEST(FromGrpc, KeepsTheViolatedFieldsWhereTheServerNamesAll) {
  v1::Violations violations;
  violations.add_violations()->set_field("options.segments");
  const auto violations_of = [&violations] {
    return ViolationsOf(FromServer(grpc::StatusCode::INVALID_ARGUMENT, "INVALID", "", violations));
  };
  EXPECT_THAT(violations_of(), testing::ElementsAre(FieldViolation{"options.segments", ""}));
  violations.set_more(1);
  EXPECT_THAT(violations_of(), testing::IsEmpty());
}

TEST(WasNotSent, IsFalseWhereAServerMayHaveSeenTheRequest) {
  EXPECT_FALSE(WasNotSent(Draining()));
  EXPECT_FALSE(WasNotSent(absl::DeadlineExceededError(kRefused)));
  EXPECT_FALSE(WasNotSent(absl::OkStatus()));
}

TEST(WithRemedy, DependsOnWhatKeptTheCallFromTheServer) {
  const auto remedied = [](const absl::Status& status) {
    return std::string(WithRemedy(status).message());
  };
  EXPECT_EQ(remedied(Unavailable(kRefused)),
            absl::StrCat("no answer from a server at 127.0.0.1:1 (", kRefused,
                         "); start stowage-server, or name another with --server"));
  EXPECT_THAT(remedied(Unavailable(kDied)), HasSubstr("; if it speaks TLS give --tls-ca"));
  EXPECT_THAT(remedied(Unavailable(kNoTls)), HasSubstr("; check --tls-ca"));
  EXPECT_THAT(remedied(Unavailable("empty address list:")), HasSubstr("the key of --tls-cert"));
  absl::Status through_proxy = absl::UnavailableError("none");
  SetObstacle(Obstacle::kProxy, &through_proxy);
  EXPECT_THAT(remedied(through_proxy), HasSubstr("none; check that the proxy runs"));
  EXPECT_EQ(remedied(Draining()), Draining().message());  // it says so itself
}

}  // namespace
}  // namespace stowage
