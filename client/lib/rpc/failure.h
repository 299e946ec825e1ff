// What is known of a failed call besides its code and message. It travels in payloads of the
// status, so that no code has to read the message.
#ifndef STOWAGE_CLIENT_LIB_RPC_FAILURE_H_
#define STOWAGE_CLIENT_LIB_RPC_FAILURE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "solver/model/validate.h"

namespace stowage {

// The pause that the server advises with a RESOURCE_EXHAUSTED, in seconds.
std::optional<double> AdvisedPause(const absl::Status& status);
void SetAdvisedPause(double seconds, absl::Status* status);

// Why a call failed, as far as that decides where it is repeated.
enum class FailureCause {
  kOther,             // no server listens, it drains, its queue is full: another one may answer
  kBrokenConnection,  // while the server had the call: the request may be what ended it
  kCallersLimit,      // the caller itself sends more than it may: not a matter of the server
};
FailureCause CauseOf(const absl::Status& status);
void SetCause(FailureCause cause, absl::Status* status);

// Whether a call failed because no connection could be made: no server has seen the request. False
// where that is not certain.
bool WasNotSent(const absl::Status& status);
void SetNotSent(absl::Status* status);

// What kept a call from a server. Of several the first one here is what to advise on.
enum class Obstacle {
  kTls,       // the two sides do not come to terms over TLS
  kProxy,     // no server answered through the proxy
  kClosed,    // the server closed the connection: it may speak TLS where this side does not
  kKey,       // of this side's certificate: it does not fit
  kNoServer,  // none answered, for another reason
  kNone,
};
Obstacle ObstacleOf(const absl::Status& status);
void SetObstacle(Obstacle obstacle, absl::Status* status);

// The reason that a Stowage server gives for an error, as google.rpc.ErrorInfo has it:
// "SOLVE_MEMORY". Empty: there is none.
std::string ReasonOf(const absl::Status& status);
void SetReason(absl::string_view reason, absl::Status* status);

// All fields that are wrong with the request. Empty: the server did not say, or had no room for all
// of them.
std::vector<FieldViolation> ViolationsOf(const absl::Status& status);
void SetViolations(const std::vector<FieldViolation>& violations, absl::Status* status);

// The failure of the call that the server's log has under `id`: "the queue is full: … (request
// 1f2e3d4c-17)".
absl::Status WithRequestId(const absl::Status& status, absl::string_view id);

// The same failure, of the same call, in other words.
absl::Status WithMessage(const absl::Status& status, absl::string_view message);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_RPC_FAILURE_H_
