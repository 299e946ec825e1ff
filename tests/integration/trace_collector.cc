#include "tests/integration/trace_collector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

constexpr const char* kMethod = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

size_t CountCalls(const std::vector<otlp::Span>& spans) {
  return static_cast<size_t>(std::count_if(spans.begin(), spans.end(), [](const otlp::Span& span) {
    return span.kind() == otlp::Span::SPAN_KIND_SERVER;
  }));
}

// All spans were taken, or all but so many.
grpc::ByteBuffer ResponseRejecting(int64_t spans) {
  otlp::ExportTraceServiceResponse response;
  if (spans > 0) response.mutable_partial_success()->set_rejected_spans(spans);
  const grpc::Slice slice(response.SerializeAsString());
  return {&slice, 1};
}

}  // namespace

// One call, which deletes itself when gRPC is done with it. Finishes once: after the request has
// been read or could not be, or, where it is not answered, when it is cancelled.
class TraceCollector::Export final : public grpc::ServerGenericBidiReactor {
 public:
  Export(TraceCollector& collector, bool is_known) : collector_(collector), is_known_(is_known) {
    StartRead(&request_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (ok) collector_.Keep(request_);
    if (collector_.answers_ == Answers::kNone) return;
    if (!ok || !is_known_) return Finish({grpc::StatusCode::UNIMPLEMENTED, ""});
    StartWriteAndFinish(&response_, {}, grpc::Status::OK);
  }
  void OnCancel() override {
    if (collector_.answers_ == Answers::kNone) Finish({grpc::StatusCode::CANCELLED, ""});
  }
  void OnDone() override { delete this; }

  TraceCollector& collector_;
  const bool is_known_;
  grpc::ByteBuffer request_;
  const grpc::ByteBuffer response_ =
      ResponseRejecting(collector_.answers_ == Answers::kAllButOneSpan ? 1 : 0);
};

TraceCollector::TraceCollector(Answers answers,
                               const std::shared_ptr<grpc::ServerCredentials>& credentials)
    : answers_(answers) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", credentials, &port);
  builder.RegisterCallbackGenericService(this);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) throw std::runtime_error("the collector does not start");
  address_ = absl::StrCat("127.0.0.1:", port);
}

TraceCollector::~TraceCollector() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

grpc::ServerGenericBidiReactor* TraceCollector::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  return new Export(*this, context->method() == kMethod);
}

void TraceCollector::Keep(const grpc::ByteBuffer& bytes) {
  grpc::Slice slice;
  otlp::ExportTraceServiceRequest request;
  const bool is_read = bytes.DumpToSingleSlice(&slice).ok() &&
                       request.ParseFromArray(slice.begin(), static_cast<int>(slice.size()));
  EXPECT_TRUE(is_read);
  MutexLock lock(mutex_);
  requests_.push_back(std::move(request));
  changed_.SignalAll();
}

std::vector<otlp::ExportTraceServiceRequest> TraceCollector::Requests() const {
  MutexLock lock(mutex_);
  return requests_;
}

std::vector<otlp::Span> TraceCollector::Spans() const {
  MutexLock lock(mutex_);
  return SpansLocked();
}

std::vector<otlp::Span> TraceCollector::SpansLocked() const {
  std::vector<otlp::Span> all;
  for (const otlp::ExportTraceServiceRequest& request : requests_) {
    for (const otlp::ResourceSpans& process : request.resource_spans()) {
      for (const otlp::ScopeSpans& spans : process.scope_spans()) {
        all.insert(all.end(), spans.spans().begin(), spans.spans().end());
      }
    }
  }
  return all;
}

std::vector<otlp::Span> TraceCollector::WaitForCalls(size_t count) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(mutex_);
  while (CountCalls(SpansLocked()) < count && changed_.WaitUntil(mutex_, end)) {
  }
  EXPECT_GE(CountCalls(SpansLocked()), count);
  return SpansLocked();
}

}  // namespace stowage
