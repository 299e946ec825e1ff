#include "client/lib/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/lib/retry.h"
#include "google/rpc/error_details.pb.h"
#include "stowage/v1/errors.pb.h"

namespace stowage {
namespace {

using testing::HasSubstr;

// As Connection reports them; tests/integration/failover_test.cc has real ones.
constexpr const char* kRefused =
    "no answer from a server at 127.0.0.1:1 (failed to connect to all addresses; last error: "
    "UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused)";
constexpr const char* kNoProxy =
    "no answer from a server at one.example:1 through the proxy 127.0.0.1:2, that of http_proxy "
    "(failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:2: Failed to connect "
    "to remote host: Connection refused)";
constexpr const char* kDied = "no answer from a server at 127.0.0.1:1 (Socket closed)";
constexpr const char* kDraining = "127.0.0.1:1: the server is draining; ask another server";
constexpr const char* kNoTls =
    "the server at 127.0.0.1:1 and this side do not come to terms over TLS (failed to connect to "
    "all addresses; last error: UNKNOWN: Ssl handshake failed: SSL_ERROR_SSL)";

TEST(FromGrpc, TellsTheCallersTimeLimitFromTheServers) {
  const Connection connection("127.0.0.1:1", {}, 1);
  const grpc::Status late(grpc::StatusCode::DEADLINE_EXCEEDED, "no schedule within its 3 s");
  EXPECT_EQ(connection.FromGrpc(late, std::nullopt).message(), "no schedule within its 3 s");
  EXPECT_THAT(connection.FromGrpc(late, 5).message(), HasSubstr("did not answer within 5 s"));
}

TEST(FromGrpc, TellsConnectionsThatBrokeFromThoseThatWereNeverMade) {
  const Connection connection("127.0.0.1:1", {}, 1);
  const auto cause = [&connection](const char* message) {
    return CauseOf(connection.FromGrpc({grpc::StatusCode::UNAVAILABLE, message}, std::nullopt));
  };
  EXPECT_EQ(cause("Socket closed"), FailureCause::kBrokenConnection);
  EXPECT_EQ(cause("recvmsg:Connection reset by peer"), FailureCause::kBrokenConnection);
  EXPECT_EQ(cause("failed to connect to all addresses; last error: UNKNOWN"), FailureCause::kOther);
  EXPECT_EQ(cause("keepalive watchdog timeout"), FailureCause::kBrokenConnection);
  EXPECT_EQ(cause("the server is draining; ask another server"), FailureCause::kOther);
  // A proxy without a server.
  EXPECT_EQ(cause("Received http2 header with status: 503"), FailureCause::kOther);
  EXPECT_EQ(cause("no healthy upstream"), FailureCause::kOther);
}

TEST(FromGrpc, TellsTheCallersLimitsFromTheServers) {
  const Connection connection("127.0.0.1:1", {}, 1);
  const auto cause = [&connection](const char* reason) {
    google::rpc::ErrorInfo info;
    info.set_reason(reason);
    v1::ErrorStatus details;
    details.add_details()->PackFrom(info);
    return CauseOf(connection.FromGrpc(
        {grpc::StatusCode::RESOURCE_EXHAUSTED, "full", details.SerializeAsString()}, std::nullopt));
  };
  EXPECT_EQ(cause("CLIENT_RATE"), FailureCause::kCallersLimit);
  EXPECT_EQ(cause("CLIENT_LIMIT"), FailureCause::kCallersLimit);
  EXPECT_EQ(cause("QUEUE_FULL"), FailureCause::kOther);
}

TEST(WasNotSent, IsTrueWhereNoConnectionWasMade) {
  EXPECT_TRUE(WasNotSent(absl::UnavailableError(kRefused)));
  EXPECT_TRUE(WasNotSent(absl::UnavailableError(kNoTls)));
  EXPECT_TRUE(WasNotSent(absl::UnavailableError(
      "no answer from a server at nobody:1 (DNS resolution failed for nobody:1: not found)")));
}

TEST(WasNotSent, IsFalseWhereAServerMayHaveSeenTheRequest) {
  EXPECT_FALSE(WasNotSent(absl::UnavailableError(kDied)));
  EXPECT_FALSE(WasNotSent(absl::UnavailableError(kDraining)));
  EXPECT_FALSE(WasNotSent(absl::DeadlineExceededError(kRefused)));
  EXPECT_FALSE(WasNotSent(absl::OkStatus()));
}

std::string Remedied(const char* message) {
  return std::string(WithRemedy(absl::UnavailableError(message)).message());
}

TEST(WithRemedy, DependsOnTheFailure) {
  EXPECT_EQ(Remedied(kRefused),
            absl::StrCat(kRefused, "; start stowage-server, or name another with --server"));
  EXPECT_THAT(Remedied(kNoProxy), HasSubstr("; check that the proxy runs"));
  EXPECT_THAT(Remedied(kDied), HasSubstr("; if it speaks TLS give --tls-ca"));
  EXPECT_THAT(Remedied(kNoTls), HasSubstr("; check --tls-ca"));
  EXPECT_EQ(Remedied(kDraining), kDraining);  // it says so itself
}

}  // namespace
}  // namespace stowage
