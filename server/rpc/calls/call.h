// What all calls share: an id, the caller and its deadline, cancellation, reading the request, one
// record for log and metrics, and an end that is reported exactly once.
#ifndef STOWAGE_SERVER_RPC_CALLS_CALL_H_
#define STOWAGE_SERVER_RPC_CALLS_CALL_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "grpcpp/support/slice.h"
#include "server/engine/limits/delayed_refusals.h"
#include "server/engine/limits/request_bytes.h"
#include "server/engine/solves/waiter.h"
#include "server/events/call_trace.h"
#include "server/events/observer.h"
#include "server/rpc/callers/admission.h"
#include "server/rpc/calls/call_tracer.h"
#include "server/rpc/messages/message_limits.h"
#include "server/rpc/messages/read_request.h"
#include "server/rpc/messages/unsent_bytes.h"

namespace stowage {

// What every call needs of the server; outlives the calls.
struct CallEnvironment {
  Observer& observer;
  Admission& admission;
  DelayedRefusals& refusals;
  std::string version = {};  // sent with every answer and every failure
  RequestLimits limits = {};
  RequestBytes* request_bytes = nullptr;  // that calls take their memory from
  CallTracer* tracer = nullptr;           // null: no call is traced
};

// The state of one call, unary or streaming.
class CallState {
 public:
  CallState(const char* method, grpc::CallbackServerContext& context,
            const grpc::ByteBuffer& request, const CallEnvironment& environment);

  // The bytes of the request, which live as long as `request`; once. Errors: those of Admission,
  // before the request costs anything; CANCELLED; INVALID_ARGUMENT where there is no request.
  absl::StatusOr<grpc::Slice> Bytes(const grpc::ByteBuffer& request);
  // Counts what the call takes among its client's requests in flight, until its end. For calls that
  // wait: a cached answer is sent at once, whatever else its client waits for. Errors: those of
  // RequestBytes.
  absl::Status HoldMemory(const grpc::ByteBuffer& request);
  // The same for a call that needs no more of its request than it has had by now, which is freed.
  absl::Status HoldWithoutRequest(const grpc::ByteBuffer& request);
  // Frees the request of a call that holds memory; what it took is no longer counted.
  void FreeRequest(const grpc::ByteBuffer& request);

  // Reads the request: ReadRequest(), with the limits of the server.
  template <typename Message, typename Request>
  absl::Status Read(const grpc::Slice& bytes, Message* message, Request* request) {
    const ScopedSpan span(trace(), kReadSpan);
    ChargeReading(TextOf(bytes), *Message::descriptor());
    return ReadRequest(TextOf(bytes), limits_, &record_, message, request);
  }

  // Both steps: Bytes(), then Read().
  template <typename Message, typename Request>
  absl::Status Read(const grpc::ByteBuffer& request_bytes, Message* message, Request* request) {
    const absl::StatusOr<grpc::Slice> bytes = Bytes(request_bytes);
    return bytes.ok() ? Read(*bytes, message, request) : bytes.status();
  }
  // The same for a message that has no domain type.
  absl::Status Parse(const grpc::ByteBuffer& request, google::protobuf::Message* message) {
    const absl::StatusOr<grpc::Slice> bytes = Bytes(request);
    return bytes.ok() ? ParseMessage(TextOf(*bytes), message) : bytes.status();
  }

  // Its stop token is set when the caller leaves or its deadline passes.
  Caller caller() const;
  void Leave() {
    admitted_.counted.Abandon();
    stop_.request_stop();
  }
  // Before so many bytes of the answer are sent, beside those of End().
  void CountAnswer(size_t bytes) const { admitted_.counted.Answer(bytes); }
  // Counts operations of a schedule in the client's rate, beside what Admission counts.
  void ChargeOperations(size_t operations);

  // Null: the call is not traced.
  CallTrace* trace() const { return trace_.get(); }
  // The answer is at hand, and is made into a message; End() says so where nobody has before.
  void BeginDelivery();
  // Once, last of all, when gRPC is done with the call: the answer has been sent.
  void EndDelivery();

  // What log and metrics get to know of the call; complete before End().
  CallRecord& record() { return record_; }

  // Before the first message is sent, once: id and version go ahead of it. Not before, since a call
  // that fails has to end without initial metadata: clients could not repeat it otherwise.
  void BeginAnswer();

  // Reports the end to the observer; exactly once. Returns the status that the caller gets:
  // RESOURCE_EXHAUSTED instead of OK where too many responses wait to be read for one of
  // `answer_bytes` more, of which `shared_bytes` are counted elsewhere.
  grpc::Status End(absl::Status status, size_t answer_bytes = 0, size_t shared_bytes = 0);

  // The end of a call that fails, with id and version in its trailers. End() makes it where the
  // call fails by then; otherwise once, where the answer cannot be sent.
  grpc::Status Failure(const absl::Status& status);

  // After End(): calls `finish`, which sends the end. Some refusals are sent later, from another
  // thread, or once the caller leaves. Requires: a refused call is finished by the method that
  // handles it, before it returns, until when gRPC keeps the call.
  template <typename Finisher>
  void Finish(Finisher finish) {
    if (admitted_.delay_seconds == 0) return finish();
    FinishLate(std::move(finish));
  }

  static absl::string_view TextOf(const grpc::Slice& bytes) {
    return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
  }

 private:
  // Counts what reading the request costs beside its bytes, before it costs that.
  void ChargeReading(absl::string_view bytes, const google::protobuf::Descriptor& type);
  void FinishLate(absl::AnyInvocable<void()> finish);

  grpc::CallbackServerContext& context_;
  Observer& observer_;
  Admission& admission_;
  DelayedRefusals& refusals_;
  RequestBytes& request_bytes_;
  const RequestLimits limits_;
  const std::string& version_;
  CallTracer* const tracer_;
  AdmittedCaller admitted_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const std::chrono::system_clock::time_point deadline_;
  std::stop_source stop_;
  std::optional<std::stop_callback<std::function<void()>>> on_leave_;  // of a delayed refusal
  CallRecord record_;
  CallTracePtr trace_;
  std::optional<std::chrono::steady_clock::time_point> delivery_;  // when it began, if traced
  RequestBytes::Hold held_;
  UnsentBytes unsent_;
};

// Serializes `message`. Errors: RESOURCE_EXHAUSTED without enough memory.
absl::Status Serialize(const google::protobuf::Message& message, grpc::ByteBuffer* bytes);

// A unary call, from bytes to bytes. Deletes itself when gRPC is done with it, some time after
// End(). `context`, the request and the response stay valid until then; nothing of a call may be
// touched after End().
class Call final : public grpc::ServerUnaryReactor {
 public:
  Call(const char* method, grpc::CallbackServerContext& context, const grpc::ByteBuffer& request,
       const CallEnvironment& environment, grpc::ByteBuffer* response)
      : state_(method, context, request, environment), response_(*response) {}

  CallState& state() { return state_; }
  CallRecord& record() { return state_.record(); }

  // Reads the request. Ends the call and returns false where that fails.
  template <typename Message, typename Request>
  bool ReadOrEnd(const grpc::ByteBuffer& bytes, Message* message, Request* request) {
    const absl::Status status = state_.Read(bytes, message, request);
    if (!status.ok()) End(status);
    return status.ok();
  }

  // Exactly one of these, exactly once, from any thread.
  void End(const absl::Status& status, size_t shared_bytes = 0) {
    const grpc::Status end = state_.End(status, status.ok() ? response_.Length() : 0, shared_bytes);
    if (end.ok()) state_.BeginAnswer();
    state_.Finish([this, end] { Finish(end); });
  }
  void EndWith(const google::protobuf::Message& response) { End(Serialize(response, &response_)); }
  // `shared_bytes`: as of CallState::End().
  void EndWith(grpc::ByteBuffer response, size_t shared_bytes = 0) {
    response_.Swap(&response);
    End(absl::OkStatus(), shared_bytes);
  }
  // The same where the method that handles the call has not returned: the call then ends on the
  // thread that sends the answer, instead of being handed to another one.
  void EndInMethodWith(grpc::ByteBuffer response) {
    ends_in_method_ = true;
    response_.Swap(&response);
    End(absl::OkStatus());
  }

 private:
  // True: gRPC calls OnDone() and OnCancel() on the thread that it is on, as it does those of its
  // own reactors. Neither takes long where the answer was at hand. gRPC asks after the method has
  // returned. Its header reserves this for such simple reactors, and does not promise to keep it.
  bool InternalInlineable() override { return ends_in_method_; }
  void OnCancel() override { state_.Leave(); }
  void OnDone() override {
    state_.EndDelivery();
    delete this;
  }

  CallState state_;
  grpc::ByteBuffer& response_;
  bool ends_in_method_ = false;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_CALLS_CALL_H_
