// Requests and connections for tests of the service, over gRPC and without our own client library.
#ifndef STOWAGE_TESTS_INTEGRATION_RPC_H_
#define STOWAGE_TESTS_INTEGRATION_RPC_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "stowage/v1/errors.pb.h"
#include "stowage/v1/scheduler.grpc.pb.h"

namespace stowage {

using HealthState = grpc::health::v1::HealthCheckResponse;

// A profile of tests/data.
v1::Chain Profile(const std::string& name);

// Both bypass the cache: each is solved anew, whatever was solved before or is in flight.
// Solved within milliseconds: three equal stages and memory for everything.
v1::SolveRequest SmallSolveRequest();
// The chain of a 1001-layer network, repeated, with every number of segments tried: ten seconds
// for so many stages, two for half of them, little memory. By default nothing that
// is found at once fits.
inline constexpr int64_t kTooLittleAtOnce = 2'480'000'000;
v1::SolveRequest LongSolveRequest(int stages = 10'000, int64_t memory_bytes = kTooLittleAtOnce);

// The typed details of an error, as the trailer carries them.
std::optional<v1::Violations> ViolationsOf(const grpc::Status& status);
std::optional<v1::RetryAdvice> RetryAdviceOf(const grpc::Status& status);

// For assertions: "INVALID_ARGUMENT: chain.stages: is empty; …", "OK".
std::string Text(const grpc::Status& status);

// One connection to a server. Calls block, for kPatience at most. Thread-safe.
class Remote {
 public:
  explicit Remote(const std::string& address,
                  const std::shared_ptr<grpc::ChannelCredentials>& credentials =
                      grpc::InsecureChannelCredentials());

  // `context` adds metadata, a deadline or a cancellation.
  grpc::Status Solve(const v1::SolveRequest& request, v1::SolveResponse* response,
                     grpc::ClientContext* context = nullptr) const;
  grpc::Status Frontier(const v1::FrontierRequest& request, v1::FrontierResponse* response) const;
  grpc::Status Simulate(const v1::SimulateRequest& request, v1::SimulateResponse* response) const;
  grpc::Status ListSolvers(v1::ListSolversResponse* response) const;
  // UNKNOWN when the server does not answer.
  HealthState::ServingStatus Health(const std::string& service = "") const;
  // Sends bytes that need not be a message. `method`: of Scheduler ("Solve"), or a whole path
  // ("/stowage.v1.Operator/Drain"). `token`: empty for none.
  grpc::Status SendRaw(const std::string& method, const std::string& bytes,
                       const std::string& token = "") const;

  // Whether it solves a small chain, now.
  bool Answers() const;

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Scheduler::Stub> scheduler_;
  const std::unique_ptr<grpc::health::v1::Health::Stub> health_;
};

// A Solve that a thread waits for. Borrows `remote`. The destructor cancels it.
class PendingSolve {
 public:
  using Clock = std::chrono::system_clock;
  PendingSolve(const Remote& remote, v1::SolveRequest request,
               std::optional<Clock::duration> timeout = std::nullopt);
  ~PendingSolve();
  PendingSolve(const PendingSolve&) = delete;
  PendingSolve& operator=(const PendingSolve&) = delete;

  void Cancel() { context_.TryCancel(); }
  bool ended() const { return ended_; }
  // Blocks until it ends. Once.
  grpc::Status Wait();
  const v1::SolveResponse& response() const { return response_; }  // after Wait()

 private:
  const v1::SolveRequest request_;
  v1::SolveResponse response_;
  grpc::Status status_;
  grpc::ClientContext context_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

// Flags of a server that refuses everything while it solves one request.
inline constexpr const char* kOneAtATime[] = {"--threads",      "1", "--short-threads", "0",
                                              "--queue-length", "0"};

// Starts the solve at a server with those flags and returns once its only thread is busy with it.
// Throws std::runtime_error when the solve ends before that could be seen.
std::unique_ptr<PendingSolve> Occupy(
    const Remote& remote, const v1::SolveRequest& request,
    std::optional<PendingSolve::Clock::duration> timeout = std::nullopt);

}  // namespace stowage

#endif  // STOWAGE_TESTS_INTEGRATION_RPC_H_
