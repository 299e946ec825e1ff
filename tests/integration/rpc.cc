#include "tests/integration/rpc.h"

#include <stdexcept>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/impl/codegen/client_unary_call.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "tests/support/chains.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

template <typename Detail>
std::optional<Detail> DetailOf(const grpc::Status& status) {
  v1::ErrorStatus error;
  if (!error.ParseFromString(status.error_details()) || error.code() != status.error_code() ||
      error.message() != status.error_message()) {
    return std::nullopt;
  }
  for (const google::protobuf::Any& any : error.details()) {
    Detail detail;
    if (any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

void LimitTo(std::chrono::system_clock::duration timeout, grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + timeout);
}

// Channels that are alike share a connection otherwise, and with it what was true when it was made.
std::shared_ptr<grpc::Channel> NewConnection(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

}  // namespace

v1::Chain Profile(const std::string& name) {
  v1::Chain chain;
  const absl::Status status = FromJson(ReadFile(ProfilePath(name)), "chain", &chain);
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
  return chain;
}

v1::SolveRequest SmallSolveRequest() {
  v1::SolveRequest request;
  *request.mutable_chain() = ToMessage(EqualChain(3));
  request.mutable_platform()->set_memory_bytes(1000);
  request.mutable_options()->set_use_cache(false);
  return request;
}

v1::SolveRequest LongSolveRequest(int stages, int64_t memory_bytes) {
  const v1::Chain once = Profile("preact-resnet1001-8-224");
  v1::SolveRequest request;
  *request.mutable_chain() = once;
  request.mutable_chain()->clear_stages();
  for (int i = 0; i < stages; ++i) {
    v1::Stage* const stage = request.mutable_chain()->add_stages();
    *stage = once.stages(i % once.stages_size());
    stage->clear_name();
  }
  request.mutable_platform()->set_memory_bytes(memory_bytes);
  request.set_solver("periodic");
  request.mutable_options()->set_use_cache(false);
  return request;
}

std::optional<v1::Violations> ViolationsOf(const grpc::Status& status) {
  return DetailOf<v1::Violations>(status);
}

std::optional<v1::RetryAdvice> RetryAdviceOf(const grpc::Status& status) {
  return DetailOf<v1::RetryAdvice>(status);
}

std::string Text(const grpc::Status& status) {
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  return status.ok() ? "OK"
                     : absl::StrCat(absl::StatusCodeToString(code), ": ", status.error_message());
}

Remote::Remote(const std::string& address,
               const std::shared_ptr<grpc::ChannelCredentials>& credentials)
    : channel_(NewConnection(address, credentials)),
      scheduler_(v1::Scheduler::NewStub(channel_)),
      health_(grpc::health::v1::Health::NewStub(channel_)) {}

grpc::Status Remote::Solve(const v1::SolveRequest& request, v1::SolveResponse* response,
                           grpc::ClientContext* context) const {
  if (context != nullptr) return scheduler_->Solve(context, request, response);
  grpc::ClientContext own;
  LimitTo(kPatience, &own);
  return scheduler_->Solve(&own, request, response);
}

grpc::Status Remote::Frontier(const v1::FrontierRequest& request,
                              v1::FrontierResponse* response) const {
  grpc::ClientContext context;
  return scheduler_->Frontier(&context, request, response);
}

grpc::Status Remote::Simulate(const v1::SimulateRequest& request,
                              v1::SimulateResponse* response) const {
  grpc::ClientContext context;
  LimitTo(kPatience, &context);
  return scheduler_->Simulate(&context, request, response);
}

grpc::Status Remote::ListSolvers(v1::ListSolversResponse* response) const {
  grpc::ClientContext context;
  LimitTo(kPatience, &context);
  return scheduler_->ListSolvers(&context, v1::ListSolversRequest(), response);
}

HealthState::ServingStatus Remote::Health(const std::string& service) const {
  grpc::ClientContext context;
  LimitTo(kPatience, &context);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  HealthState state;
  const grpc::Status status = health_->Check(&context, request, &state);
  return status.ok() ? state.status() : HealthState::UNKNOWN;
}

grpc::Status Remote::SendRaw(const std::string& method, const std::string& bytes,
                             const std::string& token) const {
  grpc::ClientContext context;
  LimitTo(kPatience, &context);
  if (!token.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  const std::string path =
      absl::StartsWith(method, "/") ? method : absl::StrCat("/stowage.v1.Scheduler/", method);
  const grpc::internal::RpcMethod rpc(path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC);
  return grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      channel_.get(), rpc, &context, request, &response);
}

bool Remote::Answers() const {
  v1::SolveResponse response;
  return Solve(SmallSolveRequest(), &response).ok() && response.outcome() == v1::OPTIMAL;
}

PendingSolve::PendingSolve(const Remote& remote, v1::SolveRequest request,
                           std::optional<Clock::duration> timeout)
    : request_(std::move(request)) {
  LimitTo(timeout.value_or(kPatience), &context_);
  thread_ = std::thread([this, &remote] {
    status_ = remote.Solve(request_, &response_, &context_);
    ended_ = true;
  });
}

PendingSolve::~PendingSolve() {
  Cancel();
  if (thread_.joinable()) thread_.join();
}

grpc::Status PendingSolve::Wait() {
  thread_.join();
  return status_;
}

namespace {

// An answer leaves a moment before its thread counts as free, on a busy machine a long one, so it
// takes refusals over a while to prove something.
constexpr int kRefusals = 20;
constexpr std::chrono::milliseconds kPauseBetweenProbes{5};

// How many in a row, this one included.
int Probe(const Remote& remote, int refusals) {
  v1::SolveResponse ignored;
  const grpc::Status probe = remote.Solve(SmallSolveRequest(), &ignored);
  std::this_thread::sleep_for(kPauseBetweenProbes);
  return probe.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ? refusals + 1 : 0;
}

}  // namespace

std::unique_ptr<PendingSolve> Occupy(const Remote& remote, const v1::SolveRequest& request,
                                     std::optional<PendingSolve::Clock::duration> timeout) {
  auto solve = std::make_unique<PendingSolve>(remote, request, timeout);
  for (int refusals = 0; refusals < kRefusals;) {
    refusals = Probe(remote, refusals);
    if (!solve->ended()) continue;
    const grpc::Status status = solve->Wait();
    if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) {
      throw std::runtime_error("the solve ended too early: " + Text(status));
    }
    solve = std::make_unique<PendingSolve>(remote, request, timeout);  // a probe was in its way
    refusals = 0;
  }
  return solve;
}

}  // namespace stowage
