// What happens in the server, and the interfaces through which its parts report it to the log and
// the metrics.
#ifndef STOWAGE_SERVER_EVENTS_OBSERVER_H_
#define STOWAGE_SERVER_EVENTS_OBSERVER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/service/execution_report.h"
#include "proto/service/origin.h"
#include "server/events/call_trace.h"
#include "solver/model/answer.h"

namespace stowage {

// What one answer was, for the log and the metrics.
struct AnswerRecord {
  std::string solver;  // whose schedule it is
  Outcome outcome = Outcome::kInfeasible;
  Origin origin;
  double overhead = 0;                     // of the answer's prediction
  double gap = 0;                          // of the answer's prediction
  std::vector<std::string> rejected = {};  // solvers whose schedule the simulator refused: bugs
};

// A call that has ended. Fields that its method does not have are empty or 0.
struct CallRecord {
  std::string method;  // "Solve"
  std::string id;      // the caller's x-request-id, or one of the server's
  std::string trace;   // the id of the trace that it belongs to; empty: of none
  std::string peer;
  std::string client;  // who called: see AdmittedCaller
  absl::Status status;
  double seconds = 0;  // from the request's arrival to the answer
  int stages = 0;
  std::string solver;  // requested
  // Of Solve, SolveStream and Frontier, when OK; else null. Shared with the cache that has it.
  std::shared_ptr<const AnswerRecord> answer;
};

// A call of the operators' service that has ended.
struct OperatorAction {
  std::string action = {};  // "cancel_solve"
  bool changes = true;      // something: it did not only look
  std::string target = {};  // a fingerprint, a log level; empty: it has none
  std::string name = {};    // of the operator's token
  std::string peer = {};
  absl::Status status = {};
};

// Thread-safe. Must be quick: every call calls it.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void CallBegan(const std::string& method) = 0;
  virtual void CallEnded(const CallRecord& record) = 0;
  // `call` brought the report, and has not ended yet.
  virtual void ExecutionReported(const ExecutionReport& report, const CallRecord& call) = 0;
  virtual void OperatorActed(const OperatorAction& action) = 0;
  // A cache tier lost an entry (DATA_LOSS) or did not work; the service continues without it.
  virtual void StoreFailed(const absl::Status& status) = 0;
  // The files of the "certificate", the "tokens", the "http_tokens" or the "operator_tokens"
  // changed. With an error the new ones are unusable and the old ones stay in force.
  virtual void CredentialsReplaced(const std::string& which, const absl::Status& status) = 0;
};

// A call that is traced and has been answered.
struct TracedCall {
  CallRecord record;
  TraceIds ids;
  uint64_t span_id = 0;  // of the call itself, the parent of its steps
  std::chrono::steady_clock::time_point begin = {};
  std::chrono::steady_clock::time_point end = {};  // the answer has been sent
  std::vector<CallSpan> spans;                     // its steps
  size_t left_out = 0;                             // steps that are not among them

  size_t size() const { return 1 + spans.size(); }  // spans, its own included
};

// Thread-safe. Must be quick: the threads that end calls call it.
class TraceObserver {
 public:
  virtual ~TraceObserver() = default;
  virtual void CallTraced(TracedCall call) = 0;
};

// Why a connection is closed before it is served, in a word.
inline constexpr const char* kTooManyOfHost = "host_limit";       // its host has as many as it may
inline constexpr const char* kTooOften = "host_rate";             // its host connects too often
inline constexpr const char* kBarred = "barred";                  // another of its host was cut off
inline constexpr const char* kTooFewDescriptors = "descriptors";  // the rest is reserved
inline constexpr const char* kTooManyOperators = "http";  // for a newer one of the HTTP port

struct RefusedConnection {
  std::string reason;  // one of the above
  std::string peer;    // "ipv4:192.0.2.7:4711"
};

// Why a connection is cut off while it is served, in a word: see net/connection_governor.h.
inline constexpr const char* kCutNoCalls = "no_calls";  // it sends much of which no call comes
inline constexpr const char* kCutControl = "control";   // it asks for PING and SETTINGS answers
inline constexpr const char* kCutResets = "resets";     // it begins calls for nothing

struct CutConnection {
  std::string reason;  // one of the above
  std::string peer;    // "ipv4:192.0.2.7:4711"
};

// Why a handshake failed, in a word.
inline constexpr const char* kHandshakeNotTls = "not_tls";  // the client does not encrypt
inline constexpr const char* kHandshakeNoCertificate =
    "no_certificate";  // --tls-client-ca needs one
inline constexpr const char* kHandshakeUntrusted = "untrusted_certificate";  // the client's
inline constexpr const char* kHandshakeRejected = "rejected";                // by the client
inline constexpr const char* kHandshakeIncompatible = "incompatible";  // versions, ciphers, ALPN
inline constexpr const char* kHandshakeTimeout = "timeout";
inline constexpr const char* kHandshakeClosed = "closed";  // by the client, in the middle
inline constexpr const char* kHandshakeOther = "other";

struct FailedHandshake {
  std::string reason = {};  // one of the above
  std::string message;      // of the library
  std::string peer = {};    // "ipv4:192.0.2.7:4711"; empty where the library does not say
};

// A request of the HTTP port without a valid token, or for a host that is not this server.
struct RefusedReader {
  std::string message;  // what is wrong, without the token
  std::string peer;     // "ipv4:192.0.2.7:4711"
};

// Learns of connections, before there are calls, and of the HTTP port's requests. Thread-safe. Must
// be quick: the threads that accept connections call it.
class ConnectionObserver {
 public:
  virtual ~ConnectionObserver() = default;
  virtual void ConnectionAccepted(const std::string& peer) = 0;  // on the gRPC port
  virtual void ConnectionRefused(const RefusedConnection& connection) = 0;
  virtual void ConnectionCutOff(const CutConnection& connection) = 0;
  virtual void HandshakeFailed(const FailedHandshake& handshake) = 0;
  virtual void ReaderRefused(const RefusedReader& reader) = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_EVENTS_OBSERVER_H_
