// Solve and SolveStream: each hands one request to the engine and its answer to the caller.
#ifndef STOWAGE_SERVER_RPC_CALLS_SOLVE_CALL_H_
#define STOWAGE_SERVER_RPC_CALLS_SOLVE_CALL_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/cache/answer_cache.h"
#include "server/engine/engine.h"
#include "server/rpc/calls/call.h"
#include "server/rpc/calls/equal_calls.h"

namespace stowage {

// Both borrow all arguments, which outlive the call.

// A request whose text is that of one that was a memory cache hit before gets the response from
// `cache` without being parsed; one whose text is that of `calls` waits with them, likewise.
grpc::ServerUnaryReactor* StartSolve(Engine& engine, AnswerCache& cache, CallsInFlight& calls,
                                     const CallEnvironment& environment,
                                     grpc::CallbackServerContext& context,
                                     const grpc::ByteBuffer& request, grpc::ByteBuffer* response);

// Of each kind of event only the latest waits to be written: a slow reader misses some, and a
// caller that never reads takes no more memory.
grpc::ServerWriteReactor<grpc::ByteBuffer>* StartSolveStream(Engine& engine,
                                                             const CallEnvironment& environment,
                                                             grpc::CallbackServerContext& context,
                                                             const grpc::ByteBuffer& request);

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_CALLS_SOLVE_CALL_H_
