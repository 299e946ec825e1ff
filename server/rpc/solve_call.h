// Solve and SolveStream: one question each, and what its asker hears of it.
#ifndef STOWAGE_SERVER_RPC_SOLVE_CALL_H_
#define STOWAGE_SERVER_RPC_SOLVE_CALL_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/engine/engine.h"
#include "server/engine/observer.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {

// Both borrow all that they are given, which outlives the call.
grpc::ServerUnaryReactor* StartSolve(Engine& engine, Observer& observer,
                                     grpc::CallbackServerContext& context,
                                     const v1::SolveRequest& request, v1::SolveResponse* response);

// Of each kind of event only the latest waits to be written: who reads slowly misses some, who does
// not read at all costs no more memory.
grpc::ServerWriteReactor<v1::SolveEvent>* StartSolveStream(Engine& engine, Observer& observer,
                                                           grpc::CallbackServerContext& context,
                                                           const v1::SolveRequest& request);

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_SOLVE_CALL_H_
