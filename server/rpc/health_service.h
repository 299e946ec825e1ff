// grpc.health.v1: whether the server serves.
#ifndef STOWAGE_SERVER_RPC_HEALTH_SERVICE_H_
#define STOWAGE_SERVER_RPC_HEALTH_SERVICE_H_

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/engine/limits/delayed_refusals.h"
#include "server/rpc/callers/admission.h"
#include "solver/base/mutex.h"

namespace stowage {

// Needs no token, and is not gRPC's own, of which a client may call tens of thousands a second:
// this one counts in its caller's rate. All services have one state. Thread-safe.
class HealthService final : public grpc::health::v1::Health::WithRawCallbackMethod_Check<
                                grpc::health::v1::Health::WithRawCallbackMethod_Watch<
                                    grpc::health::v1::Health::Service>> {
 public:
  // `services`: the names to be asked for, beside "" for the server. NOT_SERVING until it is told
  // otherwise. Borrows the others.
  HealthService(std::set<std::string> services, Admission& admission, DelayedRefusals& refusals);
  ~HealthService() override;

  // Watchers learn of it.
  void SetServing(bool serving);

  // Check ends with NOT_FOUND for a service that there is not; Watch says SERVICE_UNKNOWN.
  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request) override;

 private:
  class Checking;
  class Watching;
  using State = grpc::health::v1::HealthCheckResponse;

  State::ServingStatus StateOf(const std::string& service) const;
  // After its end.
  void Forget(Watching& watcher);

  std::set<std::string> services_;  // constant after construction
  Admission& admission_;
  DelayedRefusals& refusals_;
  std::atomic<bool> serving_{false};
  Mutex mutex_;
  std::map<Watching*, std::shared_ptr<Watching>> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_HEALTH_SERVICE_H_
