#include "server/rpc/operator_service.h"

#include <chrono>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "server/rpc/status.h"
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

}  // namespace

// Refused callers wait a second for their answer, so that tokens cannot be tried at speed.
grpc::ServerUnaryReactor* OperatorService::Act(grpc::CallbackServerContext* context,
                                               OperatorAction action,
                                               absl::FunctionRef<absl::Status()> act) {
  const auto& metadata = context->client_metadata();
  const auto given = metadata.find("authorization");
  absl::StatusOr<std::string> name = actions_.authenticate(
      given == metadata.end() ? absl::string_view()
                              : absl::string_view(given->second.data(), given->second.size()));
  action.peer = context->peer();
  action.status = name.ok() ? act() : name.status();
  if (name.ok()) action.name = *std::move(name);
  parts_.observer.OperatorActed(action);
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const grpc::Status end = ToGrpc(action.status);
  if (!absl::IsUnauthenticated(action.status)) {
    reactor->Finish(end);
  } else {
    parts_.timers.At(Timers::Clock::now() + std::chrono::seconds(1),
                     [reactor, end] { reactor->Finish(end); });
  }
  return reactor;
}

grpc::ServerUnaryReactor* OperatorService::ListSolves(grpc::CallbackServerContext* context,
                                                      const v1::ListSolvesRequest* /*request*/,
                                                      v1::ListSolvesResponse* response) {
  return Act(context, {.action = "list_solves", .changes = false}, [&] {
    for (const SolveInFlight& solve : parts_.engine.ListSolves())
      Fill(solve, response->add_solves());
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* OperatorService::CancelSolve(grpc::CallbackServerContext* context,
                                                       const v1::CancelSolveRequest* request,
                                                       v1::CancelSolveResponse* response) {
  return Act(
      context, {.action = "cancel_solve", .target = request->fingerprint()}, [&]() -> absl::Status {
        ASSIGN_OR_RETURN(const Fingerprint fingerprint, ReadFingerprint(request->fingerprint()));
        const SolveCoordinator::Cancelled cancelled = parts_.engine.CancelSolves(fingerprint);
        if (cancelled.solves == 0) {
          return absl::NotFoundError("fingerprint: no solve in flight has it");
        }
        response->set_solves(cancelled.solves);
        response->set_callers(cancelled.callers);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* OperatorService::DropAnswer(grpc::CallbackServerContext* context,
                                                      const v1::DropAnswerRequest* request,
                                                      v1::DropAnswerResponse* /*response*/) {
  return Act(
      context, {.action = "drop_answer", .target = request->fingerprint()}, [&]() -> absl::Status {
        ASSIGN_OR_RETURN(const Fingerprint fingerprint, ReadFingerprint(request->fingerprint()));
        ASSIGN_OR_RETURN(const int64_t removed, parts_.cache.Remove(fingerprint));
        if (removed > 0) return absl::OkStatus();
        return absl::NotFoundError("fingerprint: no cached answer has it");
      });
}

grpc::ServerUnaryReactor* OperatorService::SetLogLevel(grpc::CallbackServerContext* context,
                                                       const v1::SetLogLevelRequest* request,
                                                       v1::SetLogLevelResponse* /*response*/) {
  return Act(context, {.action = "set_log_level", .target = request->level()},
             [&] { return actions_.set_log_level(request->level()); });
}

grpc::ServerUnaryReactor* OperatorService::Drain(grpc::CallbackServerContext* context,
                                                 const v1::DrainRequest* /*request*/,
                                                 v1::DrainResponse* /*response*/) {
  return Act(context, {.action = "drain"}, [&] {
    actions_.drain();
    return absl::OkStatus();
  });
}

}  // namespace stowage
