// What the server tells those who watch it: logs and metrics.
#ifndef STOWAGE_SERVER_OBSERVE_OBSERVER_H_
#define STOWAGE_SERVER_OBSERVE_OBSERVER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace stowage {

// One call, ended. Fields that its method does not have are empty or 0.
struct CallRecord {
  std::string method;  // "Solve"
  std::string id;      // the caller's x-request-id, or one of ours
  std::string peer;
  std::string client;  // who it said it is, where it had to
  absl::Status status;
  double seconds = 0;  // from the request's arrival to the answer
  double queue_seconds = 0;
  double solve_seconds = 0;
  int stages = 0;
  std::string solver;  // asked for
  std::string origin;  // whose schedule was returned
  std::string source;  // where it came from: "SOLVED", "MEMORY_CACHE"
  std::string fingerprint;
  std::string outcome;                // "OPTIMAL"
  double overhead = 0;                // of the answer's prediction,
  double gap = 0;                     // likewise
  std::vector<std::string> rejected;  // solvers whose schedule the simulator refused: bugs
};

// What the record of an answer says of the question and the answer, not of the call.
inline void CopyAnswer(const CallRecord& from, CallRecord* to) {
  to->stages = from.stages;
  to->solver = from.solver;
  to->origin = from.origin;
  to->source = from.source;
  to->fingerprint = from.fingerprint;
  to->outcome = from.outcome;
  to->overhead = from.overhead;
  to->gap = from.gap;
}

// What a job measured, beside what was predicted to it.
struct ExecutionReport {
  std::string id;  // of the call that brought it
  std::string fingerprint;
  std::string agent;
  std::string job;
  double predicted_seconds = 0;
  double measured_seconds = 0;
  int64_t predicted_peak_bytes = 0;
  int64_t measured_peak_bytes = 0;

  // How far the measurement is above the prediction, as a fraction; negative below.
  double time_error() const { return measured_seconds / predicted_seconds - 1; }
  double peak_error() const {
    return static_cast<double>(measured_peak_bytes) / static_cast<double>(predicted_peak_bytes) - 1;
  }
};

// Payload of the status of a request that was turned away, in a word ("queue_full") for metrics;
// where it is not set the code says it all.
inline constexpr const char* kRejectionPayload = "stowage.rejection";

// Thread-safe. Must be quick: it is called on the path of every call.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void CallBegan(const std::string& method) = 0;
  virtual void CallEnded(const CallRecord& record) = 0;
  virtual void ExecutionReported(const ExecutionReport& report) = 0;
  // The store lost an entry (DATA_LOSS) or did not work; the service goes on without it.
  virtual void StoreFailed(const absl::Status& status) = 0;
  // The files of the "certificate" or the "tokens" changed. An error: they are wrong, and what was
  // read before stays in force.
  virtual void CredentialsReplaced(const std::string& which, const absl::Status& status) = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_OBSERVE_OBSERVER_H_
