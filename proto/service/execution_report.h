// What a job measured when it executed a schedule, beside the prediction. Feeds the metrics of
// prediction errors (server/README.md, "RPCs").
#ifndef STOWAGE_PROTO_SERVICE_EXECUTION_REPORT_H_
#define STOWAGE_PROTO_SERVICE_EXECUTION_REPORT_H_

#include <cstdint>
#include <string>

namespace stowage {

// Of one step: the prediction's makespan and peak, and the medians of what was measured.
struct ExecutionReport {
  std::string fingerprint;  // Origin::fingerprint of the answer; empty where no server gave it
  double predicted_step_seconds = 0;
  double measured_step_seconds = 0;
  int64_t predicted_peak_bytes = 0;
  int64_t measured_peak_bytes = 0;
  std::string agent;  // the program and its version, at most 256 bytes
  std::string job;    // the operators' name of the job, at most 256 bytes

  // How far the measurement is above the prediction, as a fraction; negative below.
  double time_error() const { return measured_step_seconds / predicted_step_seconds - 1; }
  double peak_error() const {
    return static_cast<double>(measured_peak_bytes) / static_cast<double>(predicted_peak_bytes) - 1;
  }
};

}  // namespace stowage

#endif  // STOWAGE_PROTO_SERVICE_EXECUTION_REPORT_H_
