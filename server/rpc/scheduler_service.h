// service Scheduler on gRPC's callback API: translates messages, hands the work to the engine,
// never blocks a thread of gRPC's.
#ifndef STOWAGE_SERVER_RPC_SCHEDULER_SERVICE_H_
#define STOWAGE_SERVER_RPC_SCHEDULER_SERVICE_H_

#include "server/engine/engine.h"
#include "server/rpc/call.h"
#include "server/rpc/replies.h"
#include "stowage/v1/scheduler.grpc.pb.h"

namespace stowage {

// Borrows all, which must outlive the last call. Thread-safe.
class SchedulerService final
    : public v1::Scheduler::WithRawCallbackMethod_Solve<v1::Scheduler::CallbackService> {
 public:
  // `reply_bytes`: of known answers that are kept as they went over the wire.
  SchedulerService(Engine& engine, const CallEnvironment& environment, int64_t reply_bytes);

  CacheTierStats reply_stats() const { return replies_.stats(); }

  grpc::ServerUnaryReactor* Solve(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
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
  template <typename Request, typename Response>
  using Method = grpc::ServerUnaryReactor* (SchedulerService::*)(grpc::CallbackServerContext*,
                                                                 const Request*, Response*);

  // Has requests of `name` counted before they are parsed.
  template <typename Request, typename Response>
  void Bound(const char* name, Method<Request, Response> method);
  void BoundStream();

  Engine& engine_;
  const CallEnvironment environment_;
  Replies replies_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_SCHEDULER_SERVICE_H_
