#include "client/lib/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/lib/failure.h"
#include "google/rpc/error_details.pb.h"
#include "stowage/v1/errors.pb.h"

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

TEST(FromGrpc, TellsConnectionsThatBrokeFromThoseThatWereNeverMade) {
  const auto cause = [](const char* text) { return CauseOf(Unavailable(text)); };
  EXPECT_EQ(cause(kDied), FailureCause::kBrokenConnection);
  EXPECT_EQ(cause("recvmsg:Connection reset by peer"), FailureCause::kBrokenConnection);
  EXPECT_EQ(cause("failed to connect to all addresses; last error: UNKNOWN"), FailureCause::kOther);
  EXPECT_EQ(cause("keepalive watchdog timeout"), FailureCause::kBrokenConnection);
  EXPECT_EQ(CauseOf(Draining()), FailureCause::kOther);
  // A proxy without a server.
  EXPECT_EQ(cause("Received http2 header with status: 503"), FailureCause::kOther);
  EXPECT_EQ(cause("no healthy upstream"), FailureCause::kOther);
  // REFUSED_STREAM: no server has begun the call.
  EXPECT_EQ(cause("Received RST_STREAM with error code 7"), FailureCause::kOther);
}

// As HAProxy and others end a call whose server dies after it has begun to answer.
TEST(FromGrpc, TakesAStreamThatAProxyEndsForABrokenConnection) {
  const Connection connection("127.0.0.1:1", {}, 1);
  for (const grpc::Status& status :
       {grpc::Status(grpc::StatusCode::UNKNOWN, "Stream removed"),
        grpc::Status(grpc::StatusCode::INTERNAL, "Received RST_STREAM with error code 2")}) {
    const absl::Status failure = connection.FromGrpc(status, std::nullopt);
    EXPECT_TRUE(absl::IsUnavailable(failure)) << failure;
    EXPECT_EQ(CauseOf(failure), FailureCause::kBrokenConnection);
    EXPECT_FALSE(WasNotSent(failure));
  }
  const grpc::Status other(grpc::StatusCode::UNKNOWN, "Unexpected error in RPC handling");
  EXPECT_TRUE(absl::IsUnknown(connection.FromGrpc(other, std::nullopt)));
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

TEST(WasNotSent, IsTrueWhereNoConnectionWasMade) {
  EXPECT_TRUE(WasNotSent(Unavailable(kRefused)));
  EXPECT_TRUE(WasNotSent(Unavailable(kNoTls)));
  EXPECT_TRUE(WasNotSent(Unavailable("DNS resolution failed for nobody:1: not found")));
}

TEST(WasNotSent, IsFalseWhereAServerMayHaveSeenTheRequest) {
  EXPECT_FALSE(WasNotSent(Unavailable(kDied)));
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
