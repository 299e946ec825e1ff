#include "server/rpc/calls/call.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/proto_buffer_writer.h"
#include "server/rpc/calls/trace_context.h"
#include "server/rpc/messages/status.h"
#include "solver/base/time/clock.h"

namespace stowage {
namespace {

constexpr const char* kIdKey = "x-request-id";
constexpr const char* kVersionKey = "stowage-version";
constexpr size_t kLongestId = 128;
// What a call takes beside its request, in gRPC and here: measured with 6,000 that wait.
constexpr int64_t kCallBytes = 40 << 10;
// Measured with a thousand waiting calls of 75 KB, which take 220 KB each.
constexpr int64_t kTimesInMemory = 2;

// Unique in this process, and among restarts as far as 32 random bits go.
std::string NewId() {
  static const auto* const process = new std::string(
      absl::StrCat(absl::Hex(uint32_t{std::random_device{}()}, absl::kZeroPad8), "-"));
  static std::atomic<uint64_t> next{1};
  return absl::StrCat(*process, next.fetch_add(1, std::memory_order_relaxed));
}

// The caller's id ties its logs to the server's; it is cut, since it is logged.
std::string IdOf(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto given = metadata.find(kIdKey);
  if (given == metadata.end() || given->second.empty()) return NewId();
  const absl::string_view id(given->second.data(), given->second.size());
  // It is sent back, as metadata may be.
  if (!absl::c_all_of(id, absl::ascii_isprint)) return NewId();
  return std::string(id.substr(0, kLongestId));
}

// Empty: the caller sent none.
absl::string_view TraceParentOf(const grpc::CallbackServerContext& context) {
  const auto given = context.client_metadata().find("traceparent");
  if (given == context.client_metadata().end()) return "";
  return {given->second.data(), given->second.size()};
}

}  // namespace

// The caller is admitted before anything of the request is read; Bytes() returns the outcome, so
// that a refused call ends like any other.
CallState::CallState(const char* method, grpc::CallbackServerContext& context,
                     const grpc::ByteBuffer& request, const CallEnvironment& environment)
    : context_(context),
      observer_(environment.observer),
      admission_(environment.admission),
      refusals_(environment.refusals),
      request_bytes_(*environment.request_bytes),
      limits_(environment.limits),
      version_(environment.version),
      tracer_(environment.tracer),
      admitted_(environment.admission.Admit(context, RequestLength(request))),
      deadline_(context.deadline()) {
  record_.method = method;
  record_.id = IdOf(context);
  record_.peer = std::move(admitted_.peer);  // which admission has no more use for
  record_.client = admitted_.client;
  const absl::string_view header = TraceParentOf(context);
  const std::optional<TraceParent> parent = ParseTraceParent(header);
  if (parent.has_value()) {
    record_.trace = std::string(parent->trace);
    context.AddTrailingMetadata("traceparent", std::string(header));
  }
  if (tracer_ != nullptr) {
    trace_ = admitted_.status.ok() ? tracer_->Begin(parent) : tracer_->BeginRefused(parent, begin_);
  }
  if (trace_ != nullptr) record_.trace = trace_->ids().trace;
  observer_.CallBegan(record_.method);
}

// The deadline is moved to the steady clock, which does not jump; gRPC gives calls without one a
// time far ahead.
Caller CallState::caller() const {
  using Steady = std::chrono::steady_clock;
  constexpr std::chrono::hours kNever{24 * 365};
  Caller caller{.client = admitted_.client,
                .stop = stop_.get_token(),
                .limits = admitted_.limits,
                .trace = trace_};
  const auto left = deadline_ - std::chrono::system_clock::now();
  if (left < kNever) {
    caller.deadline = Steady::now() + std::chrono::duration_cast<Steady::duration>(left);
  }
  return caller;
}

// The request lies in blocks that are larger than what they hold.
absl::Status CallState::HoldMemory(const grpc::ByteBuffer& request) {
  const int64_t held_bytes = kCallBytes + kTimesInMemory * static_cast<int64_t>(request.Length());
  ASSIGN_OR_RETURN(held_, request_bytes_.Take(held_bytes, admitted_.client));
  return absl::OkStatus();
}

absl::Status CallState::HoldWithoutRequest(const grpc::ByteBuffer& request) {
  ASSIGN_OR_RETURN(held_, request_bytes_.Take(kCallBytes, admitted_.client));
  FreeRequest(request);
  return absl::OkStatus();
}

// The buffer is gRPC's, and const to methods alone; a raw method has no other way to free it.
void CallState::FreeRequest(const grpc::ByteBuffer& request) {
  const_cast<grpc::ByteBuffer&>(request).Clear();
  held_.ShrinkTo(kCallBytes);
}

absl::StatusOr<grpc::Slice> CallState::Bytes(const grpc::ByteBuffer& request) {
  if (!admitted_.status.ok()) return admitted_.status;
  grpc::Slice bytes;
  if (request.Valid()) {
    // Copies only what came in several pieces.
    if (request.TrySingleSlice(&bytes).ok()) return bytes;
    if (request.DumpToSingleSlice(&bytes).ok()) return bytes;
  }
  if (context_.IsCancelled())
    return absl::CancelledError("the caller no longer waits for the answer");
  return absl::InvalidArgumentError(absl::StrCat(
      "the call has no request; send one message, as scheduler.proto has it for ", record_.method));
}

void CallState::ChargeReading(absl::string_view bytes, const google::protobuf::Descriptor& type) {
  admission_.ChargeMessages(admitted_, bytes.size(), CountMessages(bytes, type));
}

void CallState::ChargeOperations(size_t operations) {
  admission_.ChargeOperations(admitted_, operations);
}

void CallState::BeginAnswer() {
  context_.AddInitialMetadata(kIdKey, record_.id);
  context_.AddInitialMetadata(kVersionKey, version_);
}

// gRPC sends initial metadata that is empty together with the trailers ("Trailers-Only"), unless a
// message was sent. Clients take any other as the beginning of an answer, and no longer repeat the
// call, whatever their retry policy says.
grpc::Status CallState::Failure(const absl::Status& status) {
  context_.AddTrailingMetadata(kIdKey, record_.id);
  context_.AddTrailingMetadata(kVersionKey, version_);
  return ToGrpc(status, &context_);
}

void CallState::BeginDelivery() {
  if (trace_ != nullptr && !delivery_.has_value()) delivery_ = CallTrace::Clock::now();
}

void CallState::EndDelivery() {
  if (trace_ == nullptr) return;
  trace_->RecordUntilNow(kDeliverSpan, delivery_.value_or(begin_));
  (void)WithMemory([&] { tracer_->End(*trace_, record_, begin_); });
}

grpc::Status CallState::End(absl::Status status, size_t answer_bytes, size_t shared_bytes) {
  BeginDelivery();
  if (status.ok()) {
    status = unsent_.Take(static_cast<int64_t>(answer_bytes - shared_bytes), record_.client);
  }
  // gRPC cancels calls whose deadline has passed; the log tells these from callers that left.
  if (absl::IsCancelled(status) && std::chrono::system_clock::now() >= deadline_) {
    status = absl::DeadlineExceededError("the caller's deadline passed");
  }
  if (status.ok()) CountAnswer(answer_bytes);
  grpc::Status wire = status.ok() ? grpc::Status::OK : Failure(status);
  record_.status = std::move(status);
  record_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  observer_.CallEnded(record_);
  return wire;
}

void CallState::FinishLate(absl::AnyInvocable<void()> finish) {
  const auto due = After(std::chrono::steady_clock::now(), admitted_.delay_seconds);
  const auto refusal = refusals_.Delay(record_.client, due, std::move(finish));
  if (refusal != nullptr) on_leave_.emplace(stop_.get_token(), [refusal] { refusal->SendNow(); });
}

// Into slices of a mebibyte at most: one block of a large response's size may not be had.
absl::Status Serialize(const google::protobuf::Message& message, grpc::ByteBuffer* bytes) {
  constexpr int kBlockBytes = 1 << 20;  // of the slices that the response is made of
  bool serialized = false;
  RETURN_IF_ERROR(WithMemory([&] {
    const auto size = static_cast<int>(message.ByteSizeLong());
    grpc::ProtoBufferWriter writer(bytes, kBlockBytes, size);
    serialized = message.SerializeToZeroCopyStream(&writer);
  }));
  return serialized ? absl::OkStatus() : absl::InternalError("the response cannot be serialized");
}

}  // namespace stowage
