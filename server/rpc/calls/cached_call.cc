#include "server/rpc/calls/cached_call.h"

#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "server/events/call_trace.h"
#include "server/rpc/messages/shared_response.h"

namespace stowage {

bool EndFromCache(absl::string_view text, const Engine& engine, AnswerCache& cache, Call* call) {
  if (text.empty() || engine.draining()) return false;
  const CachedResponsePtr cached = [&] {
    const ScopedSpan span(call->state().trace(), kFindResponseSpan);
    return cache.FindResponse(text);
  }();
  if (cached == nullptr) return false;
  CallRecord& record = call->record();
  record.stages = cached->stages;
  record.solver = cached->solver;
  record.answer = {cached, &cached->answer};
  const grpc::Slice slice = SliceOf(cached, cached->response);
  call->EndInMethodWith(grpc::ByteBuffer(&slice, 1));
  return true;
}

void CacheResponse(const std::string& text, const google::protobuf::Message& response,
                   const AnswerRecord& answer, const CallRecord& call, AnswerCache& cache) {
  if (text.empty()) return;
  cache.PutResponse({.request_text = text,
                     .response = response.SerializeAsString(),
                     .owner = call.client,
                     .stages = call.stages,
                     .solver = call.solver,
                     .answer = answer});
}

}  // namespace stowage
