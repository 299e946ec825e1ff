// Failed handshakes of connections to the gRPC port. gRPC makes the handshakes and tells of them in
// its log alone, so this file reads that log, by the texts of version 1.51.
#ifndef STOWAGE_SERVER_SECURITY_HANDSHAKE_FAILURES_H_
#define STOWAGE_SERVER_SECURITY_HANDSHAKE_FAILURES_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "server/events/observer.h"

namespace stowage {

// Reports failed handshakes to the observer for as long as it lives. One at a time in a process.
class HandshakeFailures {
 public:
  // The observer outlives this object.
  explicit HandshakeFailures(ConnectionObserver& observer);
  ~HandshakeFailures();
  HandshakeFailures(const HandshakeFailures&) = delete;
  HandshakeFailures& operator=(const HandshakeFailures&) = delete;

  // To be called with every message of gRPC's log, at all levels: most failures are logged at level
  // debug. Nothing is logged there for a call, so that calls cost no more. Thread-safe.
  static void Read(absl::string_view message);
};

// What a message of gRPC's log says of a failed handshake; nullopt: it is about something else, or
// repeats another message, or the server stops and gives the handshake up.
std::optional<FailedHandshake> FailedHandshakeIn(absl::string_view message);

// FailedHandshake::reason for an error's text, of gRPC or of OpenSSL ("error:0A0000C1:...").
const char* HandshakeFailureReason(absl::string_view error);

}  // namespace stowage

#endif  // STOWAGE_SERVER_SECURITY_HANDSHAKE_FAILURES_H_
