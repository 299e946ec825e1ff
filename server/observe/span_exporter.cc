#include "server/observe/span_exporter.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <thread>

#include "grpcpp/create_channel.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "solver/base/out_of_memory.h"

namespace stowage {
namespace {

constexpr const char* kExportMethod = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
constexpr std::chrono::milliseconds kGather{500};  // for batches of more than a call
constexpr std::chrono::seconds kSendDeadline{5};   // of a batch
constexpr std::chrono::seconds kFlushDeadline{5};  // of all that waits when the server ends
constexpr int kMaxReconnectBackoffMs = 5000;       // of a collector that restarts

std::shared_ptr<grpc::ChannelCredentials> CredentialsFor(const TraceCollectorOptions& collector) {
  if (!collector.has_tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = collector.authorities;
  return grpc::SslCredentials(options);
}

std::shared_ptr<grpc::Channel> CollectorChannel(const TraceCollectorOptions& collector) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // those are for what leaves the site
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMs);
  return grpc::CreateCustomChannel(collector.address, CredentialsFor(collector), arguments);
}

}  // namespace

SpanExporter::SpanExporter(const TraceCollectorOptions& collector, TraceResource resource)
    : resource_(std::move(resource)),
      stub_(CollectorChannel(collector)),
      thread_([this] { Run(); }) {}

SpanExporter::~SpanExporter() {
  {
    MutexLock lock(mutex_);
    end_ = Clock::now() + kFlushDeadline;
    changed_.SignalAll();
  }
  queue_.Close();
  thread_.join();
}

void SpanExporter::Run() {
  for (;;) {
    std::vector<TracedCall> batch;
    const auto take = [&] {
      batch = queue_.Take(kGather);
      return true;
    };
    if (!UnlessOutOfMemory(take, false)) {
      std::this_thread::sleep_for(kGather);  // there may be memory later
      continue;
    }
    if (batch.empty()) return;
    const auto send = [&] {
      Send(batch);
      return true;
    };
    const bool has_memory = UnlessOutOfMemory(send, false);
    if (!has_memory) queue_.Failed(static_cast<int64_t>(CountSpans(batch)));
  }
}

bool SpanExporter::IsOver() {
  MutexLock lock(mutex_);
  return end_.has_value() && Clock::now() >= *end_;
}

// A collector may take a part of the batch, and says of how many spans it did not.
void SpanExporter::Send(const std::vector<TracedCall>& batch) {
  const auto spans = static_cast<int64_t>(CountSpans(batch));
  if (IsOver()) return queue_.Failed(spans);
  const otlp::ExportTraceServiceRequest request = OtlpRequest(batch, resource_, TwoClocks());
  otlp::ExportTraceServiceResponse response;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kSendDeadline);
  std::optional<grpc::Status> status;  // written under the lock
  stub_.UnaryCall(&context, kExportMethod, {}, &request, &response, [&](grpc::Status end) {
    MutexLock lock(mutex_);
    status = std::move(end);
    changed_.SignalAll();
  });
  Await(status, &context);
  if (!status->ok()) return queue_.Failed(spans);
  const int64_t rejected =
      std::clamp<int64_t>(response.partial_success().rejected_spans(), 0, spans);
  queue_.Sent(spans - rejected);
  queue_.Failed(rejected);
}

// Cancels the call where the server does not wait for it any more; without the lock, which the
// call's end takes.
void SpanExporter::Await(const std::optional<grpc::Status>& status, grpc::ClientContext* context) {
  {
    MutexLock lock(mutex_);
    while (!status.has_value()) {
      if (!end_.has_value()) {
        changed_.Wait(mutex_);
      } else if (!changed_.WaitUntil(mutex_, *end_)) {
        break;
      }
    }
    if (status.has_value()) return;
  }
  context->TryCancel();
  MutexLock lock(mutex_);
  while (!status.has_value()) changed_.Wait(mutex_);
}

}  // namespace stowage
