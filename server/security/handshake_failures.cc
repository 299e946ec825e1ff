#include "server/security/handshake_failures.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "solver/base/mutex.h"

namespace stowage {
namespace {

constexpr absl::string_view kFailed = "Handshaking failed: ";
// After the TLS handshake the first frame of HTTP/2 must arrive within the same time.
constexpr absl::string_view kNoSettings = ": Sending goaway err=";
constexpr absl::string_view kSettingsTimeout =
    "Did not receive HTTP/2 settings before handshake timeout";

Mutex observer_mutex;
ConnectionObserver* current_observer ABSL_GUARDED_BY(observer_mutex) = nullptr;

// The code in "...error:0A0000C7:SSL routines::...", which unlike the text after it is part of
// OpenSSL's interface; 0 where there is none.
uint32_t OpenSslCode(absl::string_view error) {
  constexpr absl::string_view kBefore = "error:";
  const size_t at = error.find(kBefore);
  uint32_t code = 0;
  if (at == absl::string_view::npos ||
      !absl::SimpleHexAtoi(error.substr(at + kBefore.size(), 8), &code)) {
    return 0;
  }
  return code;
}

const char* ReasonOfCode(uint32_t code) {
  const int reason = ERR_GET_REASON(code);
  // The client ended the handshake with an alert, most often because of the server's certificate.
  if (reason >= SSL_AD_REASON_OFFSET) return kHandshakeRejected;
  switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
      return kHandshakeNotTls;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return kHandshakeNoCertificate;
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      return kHandshakeUntrusted;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_INAPPROPRIATE_FALLBACK:
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SHARED_GROUPS:
    case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_APPLICATION_PROTOCOL:
      return kHandshakeIncompatible;
    case SSL_R_UNEXPECTED_EOF_WHILE_READING:
      return kHandshakeClosed;
    default:
      return kHandshakeOther;
  }
}

// The peer in 'target_address:"ipv4:192.0.2.7:4711"', which errors of the socket have; empty: it is
// not named.
std::string PeerIn(absl::string_view error) {
  constexpr absl::string_view kBefore = "target_address:\"";
  const size_t at = error.find(kBefore);
  if (at == absl::string_view::npos) return "";
  error.remove_prefix(at + kBefore.size());
  return std::string(error.substr(0, error.find('"')));
}

// Without the details in braces, such as the line in gRPC's source.
std::string TextOf(absl::string_view error) {
  absl::ConsumePrefix(&error, "UNKNOWN:");
  return std::string(error.substr(0, error.find(" {")));
}

}  // namespace

const char* HandshakeFailureReason(absl::string_view error) {
  if (const uint32_t code = OpenSslCode(error); code != 0) return ReasonOfCode(code);
  if (absl::StrContains(error, "Handshake timed out") ||
      absl::StrContains(error, kSettingsTimeout)) {
    return kHandshakeTimeout;
  }
  if (absl::StrContains(error, "ALPN")) return kHandshakeIncompatible;
  if (absl::StrContains(error, "Handshake read failed") ||
      absl::StrContains(error, "Handshake write failed")) {
    return kHandshakeClosed;
  }
  return kHandshakeOther;
}

std::optional<FailedHandshake> FailedHandshakeIn(absl::string_view message) {
  FailedHandshake failed;
  if (absl::ConsumePrefix(&message, kFailed)) {
    if (absl::StrContains(message, "Listener stopped serving")) return std::nullopt;
    failed.peer = PeerIn(message);
  } else {
    // "ipv4:192.0.2.7:4711: Sending goaway err=UNKNOWN:Did not receive ..."
    const size_t end = message.find(kNoSettings);
    if (end == absl::string_view::npos || !absl::StrContains(message, kSettingsTimeout)) {
      return std::nullopt;
    }
    failed.peer = std::string(message.substr(0, end));
    message.remove_prefix(end + kNoSettings.size());
  }
  failed.reason = HandshakeFailureReason(message);
  failed.message = TextOf(message);
  return failed;
}

HandshakeFailures::HandshakeFailures(ConnectionObserver& its_observer) {
  MutexLock lock(observer_mutex);
  current_observer = &its_observer;
}

HandshakeFailures::~HandshakeFailures() {
  MutexLock lock(observer_mutex);
  current_observer = nullptr;
}

// The lock is held while the observer is called, so that it is not destroyed meanwhile.
void HandshakeFailures::Read(absl::string_view message) {
  const std::optional<FailedHandshake> failed = FailedHandshakeIn(message);
  if (!failed.has_value()) return;
  MutexLock lock(observer_mutex);
  if (current_observer != nullptr) current_observer->HandshakeFailed(*failed);
}

}  // namespace stowage
