// Ends calls with the serialized response to an equal request, from AnswerCache.
#ifndef STOWAGE_SERVER_RPC_CALLS_CACHED_CALL_H_
#define STOWAGE_SERVER_RPC_CALLS_CACHED_CALL_H_

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "server/cache/answer_cache.h"
#include "server/engine/engine.h"
#include "server/rpc/calls/call.h"

namespace stowage {

// Ends the call with the cached response to the same text, if there is one. Not while draining: the
// engine then refuses the request, as it refuses every other. An empty text is a miss.
bool EndFromCache(absl::string_view text, const Engine& engine, AnswerCache& cache, Call* call);

// Keeps the response for EndFromCache(), and what log and metrics say of it then. Does nothing with
// an empty text.
void CacheResponse(const std::string& text, const google::protobuf::Message& response,
                   const AnswerRecord& answer, const CallRecord& call, AnswerCache& cache);

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_CALLS_CACHED_CALL_H_
