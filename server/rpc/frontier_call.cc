#include "server/rpc/frontier_call.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/convert/answer_message.h"
#include "server/rpc/cached_call.h"
#include "server/rpc/request_text.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {
namespace {

// A frontier has no one outcome, overhead or gap: those keep their defaults.
AnswerRecord RecordOf(const FrontierResult& result) {
  return {.solver = result.frontier.solver,
          .origin = result.origin,
          .rejected = result.frontier.rejected};
}

// No text of a Solve begins like this: those begin with the number of a field.
std::string FrontierText(absl::string_view request) {
  const std::string text = RequestText(request);
  return text.empty() ? "" : absl::StrCat("Frontier", text);
}

// Ends the call with the result, and keeps it for equal requests.
void EndWithResult(FrontierResult result, const std::string& text, AnswerCache& cache, Call* call) {
  v1::FrontierResponse response;
  const absl::Status status = WithMemory([&] {
    response = ToMessage(result);
    const AnswerRecord record = RecordOf(result);
    result.origin = {.source = Origin::Source::kMemoryCache};
    result.frontier.rejected.clear();  // counted once
    call->record().answer = RecordOf(result);
    CacheResponse(text, ToMessage(result), cache, call);
    call->record().answer = record;
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
  if (const absl::Status status = call->state().Read(*slice, &message, &request); !status.ok()) {
    call->End(status);
    return call;
  }
  if (!request.options.use_cache) text.clear();
  engine.FindFrontier(std::move(request), call->state().caller(),
                      [call, &cache, text](absl::StatusOr<FrontierResult> result) {
                        if (!result.ok()) return call->End(result.status());
                        EndWithResult(*std::move(result), text, cache, call);
                      });
  return call;
}

}  // namespace stowage
