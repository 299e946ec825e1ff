// The Frontier method: many solves, whose result is cached by the text of its request.
#ifndef STOWAGE_SERVER_RPC_CALLS_FRONTIER_CALL_H_
#define STOWAGE_SERVER_RPC_CALLS_FRONTIER_CALL_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/cache/answer_cache.h"
#include "server/engine/engine.h"
#include "server/rpc/calls/call.h"

namespace stowage {

// The reactor deletes itself after its end. Borrows all, which must outlive the call.
grpc::ServerUnaryReactor* StartFrontier(Engine& engine, AnswerCache& cache,
                                        const CallEnvironment& environment,
                                        grpc::CallbackServerContext& context,
                                        const grpc::ByteBuffer& request,
                                        grpc::ByteBuffer* response);

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_CALLS_FRONTIER_CALL_H_
