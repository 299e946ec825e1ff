// Sends the spans of traced calls to a collector, with OTLP over gRPC.
#ifndef STOWAGE_SERVER_OBSERVE_SPAN_EXPORTER_H_
#define STOWAGE_SERVER_OBSERVE_SPAN_EXPORTER_H_

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "server/events/observer.h"
#include "server/observe/otlp_spans.h"
#include "server/observe/span_queue.h"
#include "solver/base/mutex.h"

namespace stowage {

// Where spans are sent.
struct TraceCollectorOptions {
  std::string address = {};      // as CheckAddress(); empty: nowhere
  bool has_tls = false;          // the connection is encrypted
  std::string authorities = {};  // of its certificate, PEM, with TLS; empty: the system's
};

// One thread sends one batch after the other. A batch that the collector does not take in time is
// counted as failed and not sent again, so that one that hangs costs neither memory nor calls.
// Thread-safe.
class SpanExporter final : public TraceObserver {
 public:
  // The collector need not be there.
  SpanExporter(const TraceCollectorOptions& collector, TraceResource resource);
  // Sends what waits, for two seconds at most.
  ~SpanExporter() override;

  void CallTraced(TracedCall call) override { queue_.Add(std::move(call)); }
  SpanCounts counts() const { return queue_.counts(); }

 private:
  using Clock = std::chrono::steady_clock;

  void Run();
  void Send(const std::vector<TracedCall>& batch);
  void Await(const std::optional<grpc::Status>& status, grpc::ClientContext* context);
  bool IsOver();

  const TraceResource resource_;
  grpc::TemplatedGenericStub<otlp::ExportTraceServiceRequest, otlp::ExportTraceServiceResponse>
      stub_;
  SpanQueue queue_;
  Mutex mutex_;
  CondVar changed_;
  std::optional<Clock::time_point> end_ ABSL_GUARDED_BY(mutex_);  // set by the destructor
  std::thread thread_;                                            // last: it uses all of the above
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_OBSERVE_SPAN_EXPORTER_H_
