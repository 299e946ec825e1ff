#include "server/security/handshake_failures.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

// As gRPC 1.51 writes it.
std::string TlsError(const std::string& openssl) {
  return absl::StrCat("Handshaking failed: UNKNOWN:Tls handshake failed: SSL_ERROR_SSL: ", openssl,
                      " {file:\"./src/core/lib/security/transport/security_handshaker.cc\", "
                      "file_line:393, tsi_error:\"TSI_PROTOCOL_FAILURE\", tsi_code:10}");
}
std::string ReadError(const std::string& children) {
  return absl::StrCat(
      "Handshaking failed: UNKNOWN:Handshake read failed {file_line:487, children:[", children,
      "]}");
}

std::string ReasonIn(const std::string& message) {
  const std::optional<FailedHandshake> failed = FailedHandshakeIn(message);
  return failed.has_value() ? failed->reason : "none";
}

TEST(HandshakeFailures, TellsReasonsByOpenSslsCode) {
  EXPECT_EQ(ReasonIn(TlsError("error:0A00010B:SSL routines::wrong version number")), "not_tls");
  EXPECT_EQ(ReasonIn(TlsError("error:0A00009C:SSL routines::http request")), "not_tls");
  EXPECT_EQ(ReasonIn(TlsError("error:0A0000C7:SSL routines::peer did not return a certificate")),
            "no_certificate");
  EXPECT_EQ(ReasonIn(TlsError("error:0A000086:SSL routines::certificate verify failed")),
            "untrusted_certificate");
  EXPECT_EQ(ReasonIn(TlsError("error:0A000418:SSL routines::tlsv1 alert unknown ca")), "rejected");
  EXPECT_EQ(ReasonIn(TlsError("error:0A000412:SSL routines::in other words")), "rejected");
  EXPECT_EQ(ReasonIn(TlsError("error:0A000102:SSL routines::unsupported protocol")),
            "incompatible");
  EXPECT_EQ(ReasonIn(TlsError("error:0A0000C1:SSL routines::no shared cipher")), "incompatible");
  EXPECT_EQ(ReasonIn(TlsError("error:0A00009F:SSL routines::length mismatch")), "other");
}

TEST(HandshakeFailures, TellsReasonsByGrpcsText) {
  EXPECT_EQ(ReasonIn("Handshaking failed: UNKNOWN:Cannot check peer: missing selected ALPN "
                     "property. {file_line:146}"),
            "incompatible");
  EXPECT_EQ(ReasonIn(ReadError("UNKNOWN:FD Shutdown {children:[UNKNOWN:Handshake timed out {}]}")),
            "timeout");
  EXPECT_EQ(ReasonIn(ReadError("INTERNAL:Socket closed {fd:16, grpc_status:14}")), "closed");
  EXPECT_EQ(ReasonIn("Handshaking failed: INTERNAL:something new"), "other");
}

TEST(HandshakeFailures, ReadsThePeerAndTheTextWhereTheyAre) {
  std::optional<FailedHandshake> failed = FailedHandshakeIn(
      ReadError("INTERNAL:Socket closed {target_address:\"ipv4:127.0.0.1:42148\", "
                "grpc_status:14, fd:16}"));
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->peer, "ipv4:127.0.0.1:42148");
  EXPECT_EQ(failed->message, "Handshake read failed");
  failed = FailedHandshakeIn(TlsError("error:0A0000C1:SSL routines::no shared cipher"));
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->peer, "");
  EXPECT_EQ(failed->message,
            "Tls handshake failed: SSL_ERROR_SSL: error:0A0000C1:SSL routines::no shared cipher");
  failed = FailedHandshakeIn(
      "ipv6:%5B::1%5D:55062: Sending goaway err=UNKNOWN:Did not receive HTTP/2 settings before "
      "handshake timeout {file_line:418}");
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->peer, "ipv6:%5B::1%5D:55062");
  EXPECT_EQ(failed->reason, "timeout");
}

TEST(HandshakeFailures, CountsNothingElse) {
  const char* const of_openssl =
      "Handshake failed with fatal error SSL_ERROR_SSL: error:0A00010B:SSL routines::wrong "
      "version number.";
  for (const char* message :
       {of_openssl, "Security handshake failed: UNKNOWN:Handshake read failed {}",
        "ipv4:127.0.0.1:1: Sending goaway err=UNKNOWN:Server is stopping to serve requests. {}",
        "grpc epoll fd: 8", ""}) {
    EXPECT_EQ(ReasonIn(message), "none") << message;
  }
  EXPECT_EQ(ReasonIn(ReadError("UNKNOWN:FD Shutdown {children:[UNKNOWN:Listener stopped serving. "
                               "{file_line:392}]}")),
            "none");
}

class ConnectionRecord final : public ConnectionObserver {
 public:
  void ConnectionAccepted(const std::string&) override {}
  void ConnectionRefused(const RefusedConnection&) override {}
  void ConnectionCutOff(const CutConnection& /*connection*/) override {}
  void HandshakeFailed(const FailedHandshake& handshake) override {
    reasons.push_back(handshake.reason);
  }
  void ReaderRefused(const RefusedReader&) override {}

  std::vector<std::string> reasons;
};

TEST(HandshakeFailures, ReportsForAsLongAsItLives) {
  const std::string message = TlsError("error:0A0000C1:SSL routines::no shared cipher");
  ConnectionRecord record;
  HandshakeFailures::Read(message);
  {
    const HandshakeFailures log(record);
    HandshakeFailures::Read(message);
    HandshakeFailures::Read("grpc epoll fd: 8");
  }
  HandshakeFailures::Read(message);
  EXPECT_EQ(record.reasons, std::vector<std::string>{"incompatible"});
}

}  // namespace
}  // namespace stowage
