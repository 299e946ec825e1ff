// Solve and SolveStream: one question each, and what its asker hears of it.
#ifndef STOWAGE_SERVER_RPC_SOLVE_CALL_H_
#define STOWAGE_SERVER_RPC_SOLVE_CALL_H_

#include <vector>

#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/engine/engine.h"
#include "server/rpc/call.h"
#include "server/rpc/replies.h"
#include "solver/model/validate.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {

// Both borrow all that they are given, which outlives the call.

// Bytes in, bytes out: `replies` has what was asked before in the same words.
grpc::ServerUnaryReactor* StartSolve(Engine& engine, const CallEnvironment& environment,
                                     Replies& replies, grpc::CallbackServerContext& context,
                                     const grpc::ByteBuffer& request, grpc::ByteBuffer* response);

// Of each kind of event only the latest waits to be written: who reads slowly misses some, who does
// not read at all costs no more memory.
grpc::ServerWriteReactor<v1::SolveEvent>* StartSolveStream(Engine& engine,
                                                           const CallEnvironment& environment,
                                                           grpc::CallbackServerContext& context,
                                                           const v1::SolveRequest& request);

// Ends at once.
grpc::ServerWriteReactor<v1::SolveEvent>* RefuseSolveStream(
    const CallEnvironment& environment, grpc::CallbackServerContext& context,
    const std::vector<FieldViolation>& violations);

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_SOLVE_CALL_H_
