// Prints what a server's /metrics would say of things that a test cannot bring about, by the
// server's own code: every status code, schedules that the simulator refused, a certificate.
#include <cstdio>
#include <memory>

#include "absl/status/status.h"
#include "server/observe/metrics.h"

int main() {
  stowage::Metrics metrics("0");
  for (int code = 0; code <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++code) {
    stowage::CallRecord record;
    record.method = "Solve";
    record.status = absl::Status(static_cast<absl::StatusCode>(code), "");
    stowage::AnswerRecord answer;
    answer.rejected = {"pofo"};
    record.answer = std::make_shared<const stowage::AnswerRecord>(answer);
    metrics.CallEnded(record);
  }
  stowage::Gauges gauges;
  gauges.certificate_end_seconds = 0;
  std::fputs(metrics.Collect(gauges).Text().c_str(), stdout);
}
