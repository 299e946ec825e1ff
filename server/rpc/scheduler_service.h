// service Scheduler on gRPC's callback API: translates messages, hands the work to the engine,
// never blocks a thread of gRPC's.
#ifndef STOWAGE_SERVER_RPC_SCHEDULER_SERVICE_H_
#define STOWAGE_SERVER_RPC_SCHEDULER_SERVICE_H_

#include "server/engine/engine.h"
#include "server/engine/observer.h"
#include "server/rpc/arena_messages.h"
#include "stowage/v1/scheduler.grpc.pb.h"

namespace stowage {

// Borrows both, which must outlive the last call. Thread-safe.
class SchedulerService final : public v1::Scheduler::CallbackService {
 public:
  SchedulerService(Engine& engine, Observer& observer) : engine_(engine), observer_(observer) {
    SetMessageAllocatorFor_Solve(&messages_);
  }

  grpc::ServerUnaryReactor* Solve(grpc::CallbackServerContext* context,
                                  const v1::SolveRequest* request,
                                  v1::SolveResponse* response) override;
  grpc::ServerWriteReactor<v1::SolveEvent>* SolveStream(grpc::CallbackServerContext* context,
                                                        const v1::SolveRequest* request) override;
  grpc::ServerUnaryReactor* Frontier(grpc::CallbackServerContext* context,
                                     const v1::FrontierRequest* request,
                                     v1::FrontierResponse* response) override;
  grpc::ServerUnaryReactor* Simulate(grpc::CallbackServerContext* context,
                                     const v1::SimulateRequest* request,
                                     v1::SimulateResponse* response) override;
  grpc::ServerUnaryReactor* ListSolvers(grpc::CallbackServerContext* context,
                                        const v1::ListSolversRequest* request,
                                        v1::ListSolversResponse* response) override;
  grpc::ServerUnaryReactor* ReportExecution(grpc::CallbackServerContext* context,
                                            const v1::ReportExecutionRequest* request,
                                            v1::ReportExecutionResponse* response) override;

 private:
  ArenaMessages<v1::SolveRequest, v1::SolveResponse> messages_;  // of Solve, which is asked most
  Engine& engine_;
  Observer& observer_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_SCHEDULER_SERVICE_H_
