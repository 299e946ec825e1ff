// A collector of traces for tests, which keeps what servers send it.
#ifndef STOWAGE_TESTS_INTEGRATION_TRACE_COLLECTOR_H_
#define STOWAGE_TESTS_INTEGRATION_TRACE_COLLECTOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "otlp/trace.pb.h"
#include "solver/base/mutex.h"

namespace stowage {

// Serves all methods on a free port of the loopback device. Thread-safe.
class TraceCollector final : private grpc::CallbackGenericService {
 public:
  enum class Answers {
    kAll,
    kAllButOneSpan,  // of each request it rejects one
    kNone,
  };
  explicit TraceCollector(Answers answers = Answers::kAll,
                          const std::shared_ptr<grpc::ServerCredentials>& credentials =
                              grpc::InsecureServerCredentials());
  ~TraceCollector() override;  // ends the calls that it has not answered

  const std::string& address() const { return address_; }  // "127.0.0.1:43211"

  // The requests so far, each once it has been read.
  std::vector<otlp::ExportTraceServiceRequest> Requests() const;
  // Their spans.
  std::vector<otlp::Span> Spans() const;
  // The same once there are so many calls; fails the test when there are not within kPatience.
  std::vector<otlp::Span> WaitForCalls(size_t count);

 private:
  class Export;
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;
  void Keep(const grpc::ByteBuffer& bytes);
  std::vector<otlp::Span> SpansLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Answers answers_;
  std::string address_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<otlp::ExportTraceServiceRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;  // last: its calls use all of the above
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_INTEGRATION_TRACE_COLLECTOR_H_
