#include "server/rpc/calls/frontier_call.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/convert/answer_message.h"
#include "proto/service/results.h"
#include "server/cache/cache_keys.h"
#include "server/rpc/calls/cached_call.h"
#include "server/rpc/messages/request_text.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {
namespace {

// A frontier has no one outcome, overhead or gap: those keep their defaults.
AnswerRecord RecordOf(const FrontierResult& result) {
  return {.solver = result.frontier.solver,
          .origin = result.origin,
          .rejected = result.frontier.rejected};
}

// No text of a Solve begins like this: an F begins no field.
std::string FrontierText(absl::string_view request) {
  std::string storage;
  const absl::string_view text = RequestText(request, &storage);
  return text.empty() ? "" : absl::StrCat("Frontier", text);
}

// What operators drop it by. A frontier has no instance of its own, so it is that of the text.
std::string FrontierFingerprint(const std::string& text) {
  return text.empty() ? "" : ToHex(FingerprintOf(text));
}

// Ends the call with the result, and keeps it for equal requests.
void EndWithResult(FrontierResult result, const std::string& text, AnswerCache& cache, Call* call) {
  v1::FrontierResponse response;
  const absl::Status status = WithMemory([&] {
    response = ToMessage(result);
    call->record().answer = std::make_shared<const AnswerRecord>(RecordOf(result));
    if (text.empty()) return;
    // As those get it who ask again.
    result.origin = {.source = Origin::Source::kMemoryCache,
                     .fingerprint = std::move(result.origin.fingerprint)};
    AnswerRecord record = RecordOf(result);
    record.rejected.clear();  // counted once
    CacheResponse(text, ToMessage(result), record, call->record(), cache);
  });
  status.ok() ? call->EndWith(response) : call->End(status);
}

}  // namespace

grpc::ServerUnaryReactor* StartFrontier(Engine& engine, AnswerCache& cache,
                                        const CallEnvironment& environment,
                                        grpc::CallbackServerContext& context,
                                        const grpc::ByteBuffer& bytes, grpc::ByteBuffer* response) {
  auto* const call = new Call("Frontier", context, bytes, environment, response);
  const absl::StatusOr<grpc::Slice> slice = call->state().Bytes(bytes);
  if (!slice.ok()) {
    call->End(slice.status());
    return call;
  }
  // Stays empty where memory runs out, which counts as a miss.
  std::string text;
  (void)WithMemory([&] { text = FrontierText(CallState::TextOf(*slice)); });
  if (EndFromCache(text, engine, cache, call)) return call;
  v1::FrontierRequest message;
  FrontierRequest request;
  absl::Status status = call->state().HoldMemory(bytes);
  if (status.ok()) status = call->state().Read(*slice, &message, &request);
  if (!status.ok()) {
    call->End(status);
    return call;
  }
  std::string fingerprint;
  (void)WithMemory([&] { fingerprint = FrontierFingerprint(text); });
  if (!request.options.use_cache) text.clear();
  engine.FindFrontier(
      std::move(request), call->state().caller(),
      [call, &cache, text, fingerprint](absl::StatusOr<FrontierResult> result) {
        if (!result.ok()) return call->End(result.status());
        result->origin.fingerprint = fingerprint;
        EndWithResult(*std::move(result), text, cache, call);
      },
      fingerprint);
  return call;
}

}  // namespace stowage
