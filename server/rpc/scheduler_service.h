// Service Scheduler on gRPC's callback API: translates messages and hands the work to the engine.
// Never blocks a thread of gRPC.
#ifndef STOWAGE_SERVER_RPC_SCHEDULER_SERVICE_H_
#define STOWAGE_SERVER_RPC_SCHEDULER_SERVICE_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/cache/answer_cache.h"
#include "server/engine/engine.h"
#include "server/rpc/calls/call.h"
#include "server/rpc/calls/equal_calls.h"
#include "stowage/v1/scheduler.grpc.pb.h"

namespace stowage {

// Every method gets its request as bytes, since requests are counted before they are parsed.
template <typename Base>
using RawUnaryMethods = v1::Scheduler::WithRawCallbackMethod_Solve<
    v1::Scheduler::WithRawCallbackMethod_Frontier<v1::Scheduler::WithRawCallbackMethod_Simulate<
        v1::Scheduler::WithRawCallbackMethod_Admit<v1::Scheduler::WithRawCallbackMethod_ListSolvers<
            v1::Scheduler::WithRawCallbackMethod_ReportExecution<Base>>>>>>;
using RawSchedulerService =
    RawUnaryMethods<v1::Scheduler::WithRawCallbackMethod_SolveStream<v1::Scheduler::Service>>;

// Borrows all, which must outlive the last call. Thread-safe.
class SchedulerService final : public RawSchedulerService {
 public:
  SchedulerService(Engine& engine, AnswerCache& cache, const CallEnvironment& environment)
      : engine_(engine), cache_(cache), environment_(environment) {
    environment_.request_bytes = &engine.request_bytes();
  }

  grpc::ServerUnaryReactor* Solve(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* SolveStream(grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer* request) override;
  grpc::ServerUnaryReactor* Frontier(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Simulate(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Admit(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ListSolvers(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ReportExecution(grpc::CallbackServerContext* context,
                                            const grpc::ByteBuffer* request,
                                            grpc::ByteBuffer* response) override;

 private:
  Engine& engine_;
  AnswerCache& cache_;
  CallsInFlight calls_;
  CallEnvironment environment_;  // immutable after construction
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_SCHEDULER_SERVICE_H_
