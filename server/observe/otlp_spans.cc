#include "server/observe/otlp_spans.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/service/origin.h"
#include "solver/base/quote.h"

namespace stowage {
namespace {

constexpr const char* kTracedService = "stowage.v1.Scheduler";

using Attributes = google::protobuf::RepeatedPtrField<otlp::KeyValue>;

otlp::AnyValue* AddValue(const char* key, Attributes* attributes) {
  otlp::KeyValue* const attribute = attributes->Add();
  attribute->set_key(key);
  return attribute->mutable_value();
}

// Callers choose some of the texts, and one that is no UTF-8 would cost the whole request.
void AddText(const char* key, const std::string& value, Attributes* attributes) {
  if (!value.empty()) AddValue(key, attributes)->set_string_value(Printable(value));
}

void AddInteger(const char* key, int64_t value, Attributes* attributes) {
  AddValue(key, attributes)->set_int_value(value);
}

std::string SpanIdBytes(uint64_t id) {
  return absl::HexStringToBytes(absl::StrFormat("%016x", id));
}

uint64_t UnixNanos(std::chrono::steady_clock::time_point at, const TwoClocks& now) {
  const auto unix_time = now.system.time_since_epoch() - (now.steady - at);
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(unix_time).count());
}

// OpenTelemetry's conventions for gRPC servers: the others are the caller's errors.
bool IsServersError(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

// Not the message of a status: it may quote the request.
void FillCall(const TracedCall& call, const TwoClocks& now, otlp::Span* span) {
  const CallRecord& record = call.record;
  span->set_span_id(SpanIdBytes(call.span_id));
  span->set_parent_span_id(absl::HexStringToBytes(call.ids.parent));
  span->set_name(absl::StrCat(kTracedService, "/", record.method));
  span->set_kind(otlp::Span::SPAN_KIND_SERVER);
  span->set_start_time_unix_nano(UnixNanos(call.begin, now));
  span->set_end_time_unix_nano(UnixNanos(call.end, now));
  Attributes* const attributes = span->mutable_attributes();
  AddText("rpc.system", "grpc", attributes);
  AddText("rpc.service", kTracedService, attributes);
  AddText("rpc.method", record.method, attributes);
  AddInteger("rpc.grpc.status_code", static_cast<int>(record.status.code()), attributes);
  AddText("stowage.request_id", record.id, attributes);
  AddText("stowage.client", record.client, attributes);
  if (record.stages > 0) AddInteger("stowage.stages", record.stages, attributes);
  AddText("stowage.solver", record.solver, attributes);
  if (record.answer != nullptr) {
    AddText("stowage.origin", std::string(SourceName(record.answer->origin.source)), attributes);
  }
  if (IsServersError(record.status.code())) {
    span->mutable_status()->set_code(otlp::Status::STATUS_CODE_ERROR);
  }
}

void FillStep(const CallSpan& step, const TracedCall& call, const TwoClocks& now,
              otlp::Span* span) {
  span->set_span_id(SpanIdBytes(step.id));
  const bool is_part = step.parent != CallSpan::kNoParent;
  span->set_parent_span_id(SpanIdBytes(is_part ? call.spans[step.parent].id : call.span_id));
  span->set_name(step.solver.empty() ? std::string(step.name)
                                     : absl::StrCat(step.name, " ", step.solver));
  span->set_kind(otlp::Span::SPAN_KIND_INTERNAL);
  span->set_start_time_unix_nano(UnixNanos(step.begin, now));
  span->set_end_time_unix_nano(UnixNanos(step.end, now));
  Attributes* const attributes = span->mutable_attributes();
  AddText("stowage.solver", std::string(step.solver), attributes);
  AddText("stowage.outcome", std::string(step.outcome), attributes);
  if (step.is_joined) AddValue("stowage.joined", attributes)->set_bool_value(true);
}

}  // namespace

otlp::ExportTraceServiceRequest OtlpRequest(const std::vector<TracedCall>& calls,
                                            const TraceResource& resource, const TwoClocks& now) {
  otlp::ExportTraceServiceRequest request;
  otlp::ResourceSpans* const process = request.add_resource_spans();
  Attributes* const attributes = process->mutable_resource()->mutable_attributes();
  AddText("service.name", "stowage-server", attributes);
  AddText("service.version", resource.version, attributes);
  AddText("service.instance.id", resource.instance, attributes);
  otlp::ScopeSpans* const spans = process->add_scope_spans();
  spans->mutable_scope()->set_name("stowage");
  spans->mutable_scope()->set_version(resource.version);
  for (const TracedCall& call : calls) {
    const std::string trace = absl::HexStringToBytes(call.ids.trace);
    const auto add = [&] {
      otlp::Span* const span = spans->add_spans();
      span->set_trace_id(trace);
      return span;
    };
    FillCall(call, now, add());
    for (const CallSpan& step : call.spans) FillStep(step, call, now, add());
  }
  return request;
}

}  // namespace stowage
