#include "server/rpc/operator_service.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "grpcpp/support/slice.h"
#include "server/rpc/calls/call.h"
#include "server/rpc/messages/message_limits.h"
#include "server/rpc/messages/status.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

absl::StatusOr<Fingerprint> ReadFingerprint(const std::string& text) {
  const std::optional<Fingerprint> fingerprint = FingerprintFromHex(text);
  if (fingerprint.has_value()) return *fingerprint;
  return absl::InvalidArgumentError(absl::StrCat(
      "fingerprint: ", Quoted(text), " is not 64 hexadecimal digits, as an answer's origin has"));
}

void Fill(const SolveInFlight& solve, v1::SolveInFlight* message) {
  const SolveRequest& request = solve.keyed->request;
  message->set_fingerprint(ToHex(solve.keyed->keys.rounded));
  message->set_solver(SolverName(request.solver));
  message->set_stages(request.chain.length());
  message->set_memory_bytes(request.platform.memory_bytes);
  message->set_waiting_seconds(solve.waiting_seconds);
  message->set_running_seconds(solve.running_seconds);
  message->set_fraction(solve.fraction);
  message->set_has_schedule(solve.has_schedule);
  for (const std::string& client : solve.clients) message->add_clients(client);
}

void Fill(const FrontierInFlight& frontier, v1::SolveInFlight* message) {
  message->set_fingerprint(frontier.fingerprint);
  message->set_solver(frontier.solver);
  message->set_stages(frontier.stages);
  message->set_memory_bytes(frontier.memory_bytes);
  message->set_waiting_seconds(frontier.waiting_seconds);
  message->set_running_seconds(frontier.running_seconds);
  message->set_fraction(frontier.fraction);
  message->add_clients(frontier.client);
  message->set_is_frontier(true);
}

// Refuses what is too long before it is parsed: parsed it may take a hundred times as much memory.
absl::Status Read(const grpc::ByteBuffer& bytes, google::protobuf::Message* request) {
  if (bytes.Length() > kMaxBriefRequestBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the request has ", bytes.Length(),
                                                   " bytes; at most ", kMaxBriefRequestBytes,
                                                   " are allowed"));
  }
  grpc::Slice slice;
  if (bytes.Valid() && bytes.DumpToSingleSlice(&slice).ok() &&
      request->ParseFromArray(slice.begin(), static_cast<int>(slice.size()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("the request is not a ",
                                                 request->GetDescriptor()->full_name(),
                                                 "; generate the client from operator.proto"));
}

}  // namespace

// Refused callers wait a second for their answer, so that tokens cannot be tried at speed. Not
// those with a long request, of which the rate allows few: its bytes would be held meanwhile.
grpc::ServerUnaryReactor* OperatorService::Act(const RawCall& call, OperatorAction* action,
                                               google::protobuf::Message* request,
                                               const google::protobuf::Message& response,
                                               absl::FunctionRef<absl::Status()> act) {
  const AdmittedCaller caller = parts_.admission.Admit(call.context, RequestLength(call.bytes));
  const bool is_admitted = caller.status.ok();
  absl::Status& status = action->status;
  status = caller.status;
  if (is_admitted) status = Read(call.bytes, request);
  if (status.ok()) status = act();
  if (status.ok()) status = Serialize(response, call.out);
  action->peer = call.context.peer();
  if (is_admitted) action->name = caller.client;
  parts_.observer.OperatorActed(*action);
  grpc::ServerUnaryReactor* const reactor = call.context.DefaultReactor();
  const grpc::Status end = ToGrpc(status, &call.context);
  const bool is_late = !is_admitted && call.bytes.Length() <= kMaxBriefRequestBytes;
  if (!is_late) {
    reactor->Finish(end);
  } else {
    parts_.refusals.Delay(caller.client, Timers::Clock::now() + std::chrono::seconds(1),
                          [reactor, end] { reactor->Finish(end); });
  }
  return reactor;
}

grpc::ServerUnaryReactor* OperatorService::ListSolves(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* bytes,
                                                      grpc::ByteBuffer* out) {
  v1::ListSolvesRequest request;
  v1::ListSolvesResponse response;
  OperatorAction action{.action = "list_solves", .changes = false};
  return Act({*context, *bytes, out}, &action, &request, response, [&] {
    for (const SolveInFlight& solve : parts_.engine.ListSolves()) {
      Fill(solve, response.add_solves());
    }
    for (const FrontierInFlight& frontier : parts_.engine.ListFrontiers()) {
      Fill(frontier, response.add_solves());
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* OperatorService::CancelSolve(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* bytes,
                                                       grpc::ByteBuffer* out) {
  v1::CancelSolveRequest request;
  v1::CancelSolveResponse response;
  OperatorAction action{.action = "cancel_solve"};
  return Act({*context, *bytes, out}, &action, &request, response, [&]() -> absl::Status {
    action.target = request.fingerprint();
    ASSIGN_OR_RETURN(const Fingerprint fingerprint, ReadFingerprint(request.fingerprint()));
    SolveCoordinator::Cancelled cancelled = parts_.engine.CancelSolves(fingerprint);
    const int64_t frontiers = parts_.engine.CancelFrontiers(ToHex(fingerprint));
    cancelled.solves += frontiers;
    cancelled.callers += frontiers;
    if (cancelled.solves == 0) {
      return absl::NotFoundError("fingerprint: no solve in flight has it");
    }
    response.set_solves(cancelled.solves);
    response.set_callers(cancelled.callers);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* OperatorService::DropAnswer(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* bytes,
                                                      grpc::ByteBuffer* out) {
  v1::DropAnswerRequest request;
  OperatorAction action{.action = "drop_answer"};
  return Act(
      {*context, *bytes, out}, &action, &request, v1::DropAnswerResponse(), [&]() -> absl::Status {
        action.target = request.fingerprint();
        ASSIGN_OR_RETURN(const Fingerprint fingerprint, ReadFingerprint(request.fingerprint()));
        ASSIGN_OR_RETURN(const int64_t removed, parts_.engine.DropAnswers(fingerprint));
        if (removed > 0) return absl::OkStatus();
        return absl::NotFoundError("fingerprint: no cached answer has it");
      });
}

grpc::ServerUnaryReactor* OperatorService::SetLogLevel(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* bytes,
                                                       grpc::ByteBuffer* out) {
  v1::SetLogLevelRequest request;
  OperatorAction action{.action = "set_log_level"};
  return Act({*context, *bytes, out}, &action, &request, v1::SetLogLevelResponse(), [&] {
    action.target = request.level();
    return actions_.set_log_level(request.level());
  });
}

grpc::ServerUnaryReactor* OperatorService::GetStatus(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* bytes,
                                                     grpc::ByteBuffer* out) {
  v1::GetStatusRequest request;
  v1::ServerStatus response;
  OperatorAction action{.action = "get_status", .changes = false};
  return Act({*context, *bytes, out}, &action, &request, response, [&] {
    response = actions_.status(request.has_since_seconds() ? std::optional(request.since_seconds())
                                                           : std::nullopt);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* OperatorService::Drain(grpc::CallbackServerContext* context,
                                                 const grpc::ByteBuffer* bytes,
                                                 grpc::ByteBuffer* out) {
  v1::DrainRequest request;
  OperatorAction action{.action = "drain"};
  return Act({*context, *bytes, out}, &action, &request, v1::DrainResponse(), [&] {
    actions_.drain();
    return absl::OkStatus();
  });
}

}  // namespace stowage
