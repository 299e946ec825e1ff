#include "server/rpc/calls/solve_call.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "google/protobuf/arena.h"
#include "proto/convert/answer_message.h"
#include "proto/service/results.h"
#include "server/engine/export_solve.h"
#include "server/rpc/calls/cached_call.h"
#include "server/rpc/calls/equal_calls.h"
#include "server/rpc/messages/request_text.h"
#include "server/rpc/messages/shared_response.h"
#include "server/rpc/messages/unsent_bytes.h"
#include "solver/base/mutex.h"
#include "solver/model/chain_warnings.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {
namespace {

AnswerRecord RecordOf(const SolveResult& result) {
  const Answer& answer = *result.answer;
  AnswerRecord record{.solver = answer.solver,
                      .outcome = answer.outcome,
                      .origin = result.origin,
                      .overhead = answer.prediction.overhead,
                      .gap = answer.prediction.gap};
  // Counted once for each solve, not for each caller that gets its answer.
  if (result.origin.source == Origin::Source::kSolved) record.rejected = answer.rejected;
  return record;
}

CallersOwn OwnOf(const v1::SolveRequest& message, const SolveRequest& request) {
  return {message.platform(), ChainWarnings(request.chain)};
}

void FillResponse(const SolveResult& result, const CallersOwn& own, v1::SolveResponse* response) {
  Fill(*result.answer, result.origin, response);
  Fill(own.warnings, response);
  if (result.exported != nullptr) Fill(*result.exported, response->mutable_exported());
  *response->mutable_platform() = own.platform;
}

// Returns what Engine::Solve() does, and null with an export.
KeyedRequestPtr Begin(Engine& engine, SolveOrExport request, Caller caller,
                      std::shared_ptr<SolveListener> listener) {
  if (request.exported == nullptr) {
    return engine.Solve(std::move(request.solve), std::move(caller), std::move(listener));
  }
  SolveAndExport(engine, std::move(request.solve), std::move(request.exported), std::move(caller),
                 std::move(listener));
  return nullptr;
}

// What time cut short is not to be had again.
bool IsWorthCaching(const SolveResult& result) {
  return result.origin.source == Origin::Source::kMemoryCache &&
         (result.exported == nullptr || !result.exported->time_ran_out);
}

// A unary Solve. Each of its messages lies in an arena: all its parts in a few blocks that are
// allocated and freed at once, which halves the time that it takes. No call holds one while it
// waits: it takes its first block at once.
class UnarySolve final : public SolveListener, public std::enable_shared_from_this<UnarySolve> {
 public:
  // `call` lives until it has ended.
  UnarySolve(Call* call, AnswerCache& cache, CallsInFlight& calls)
      : call_(call), cache_(cache), in_flight_(calls) {}

  // Of a request that the cache has no response to. `slice` is all of `bytes`, and is freed with
  // them; `text` is RequestText() of it.
  void Start(Engine& engine, const grpc::ByteBuffer& bytes, grpc::Slice& slice,
             absl::string_view text) {
    (void)WithMemory([&] { text_ = std::string(text); });
    std::optional<Fingerprint> fingerprint;
    if (!text_.empty()) (void)WithMemory([&] { fingerprint = FingerprintOf(text_); });
    if (fingerprint.has_value() && Join(engine, *fingerprint, bytes)) return;
    if (const absl::Status held = call_->state().HoldMemory(bytes); !held.ok()) {
      return call_->End(held);
    }
    SolveOrExport request;
    if (!ParseInArena(slice, &request)) return;
    slice = grpc::Slice();
    call_->state().FreeRequest(bytes);
    const bool exports = request.exported != nullptr;
    const bool may_be_joined = request.solve.options.use_cache && fingerprint.has_value();
    const EqualCallsPtr calls = calls_;
    const KeyedRequestPtr keyed =
        Begin(engine, std::move(request), call_->state().caller(), shared_from_this());
    if (may_be_joined && keyed != nullptr) in_flight_.Add(*fingerprint, calls, keyed);
    // Done() reads it for memory cache hits alone, which have ended by now, unless a plan is found
    // first: any other call that waits would hold it for nothing.
    if (!exports) text_ = std::string();
  }

  void Done(absl::StatusOr<SolveResult> result) override {
    call_->state().BeginDelivery();
    if (!result.ok()) return call_->End(result.status());
    if (result->exported == nullptr && !IsWorthCaching(*result)) return EndWithShared(*result);
    google::protobuf::Arena arena(ArenaBlocks());
    v1::SolveResponse* response = nullptr;
    const absl::Status filled = WithMemory([&] {
      response = google::protobuf::Arena::CreateMessage<v1::SolveResponse>(&arena);
      FillResponse(*result, calls_->request().own, response);
      call_->record().answer = std::make_shared<const AnswerRecord>(RecordOf(*result));
      // Of memory cache hits only: a request that came twice is likely to come again with the same
      // text, and one that came once would only evict others.
      if (IsWorthCaching(*result)) {
        const CallRecord& record = call_->record();
        CacheResponse(text_, *response, *record.answer, record, cache_);
      }
    });
    filled.ok() ? call_->EndWith(*response) : call_->End(filled);
  }

 private:
  // Waits with the calls that have that text, if there are any, for the answer to their request.
  bool Join(Engine& engine, const Fingerprint& text, const grpc::ByteBuffer& bytes) {
    std::optional<CallsInFlight::Found> found = in_flight_.Find(text);
    if (!found.has_value()) return false;
    if (const absl::Status held = call_->state().HoldWithoutRequest(bytes); !held.ok()) {
      call_->End(held);
      return true;
    }
    calls_ = std::move(found->calls);
    const ReadOnce& request = calls_->request();
    call_->record().stages = request.stages;
    call_->record().solver = request.solver;
    engine.SolveEqual(std::move(found->keyed), request.time_budget_seconds, call_->state().caller(),
                      shared_from_this());
    text_ = std::string();  // as in Start()
    return true;
  }

  // With the response of all calls that wait with the same request, in which the origin is the
  // call's own.
  void EndWithShared(const SolveResult& result) {
    const absl::StatusOr<SharedResponsePtr> response = calls_->ResponseWith(
        result.answer, call_->record().client,
        [&](v1::SolveResponse* message) { FillResponse(result, calls_->request().own, message); });
    if (!response.ok()) return call_->End(response.status());
    grpc::ByteBuffer bytes;
    const absl::Status made = WithMemory([&] {
      call_->record().answer = std::make_shared<const AnswerRecord>(RecordOf(result));
      v1::Origin origin;
      Fill(result.answer->solver, result.origin, &origin);
      bytes = (*response)->With(origin);
    });
    made.ok() ? call_->EndWith(std::move(bytes), (*response)->bytes()) : call_->End(made);
  }

  static constexpr size_t kFirstBlockBytes = 16 << 10;
  static constexpr size_t kMaxBlockBytes = 256 << 10;

  static google::protobuf::ArenaOptions ArenaBlocks() {
    google::protobuf::ArenaOptions options;
    options.start_block_size = kFirstBlockBytes;
    options.max_block_size = kMaxBlockBytes;
    return options;
  }

  // Ends the call and returns false where the request is refused.
  bool ParseInArena(const grpc::Slice& bytes, SolveOrExport* request) {
    google::protobuf::Arena arena(ArenaBlocks());
    v1::SolveRequest* message = nullptr;
    absl::Status status = WithMemory(
        [&] { message = google::protobuf::Arena::CreateMessage<v1::SolveRequest>(&arena); });
    if (status.ok()) status = call_->state().Read(bytes, message, request);
    if (status.ok()) {
      status = WithMemory([&] {
        calls_ = std::make_shared<EqualCalls>(
            ReadOnce{.own = OwnOf(*message, request->solve),
                     .time_budget_seconds = request->solve.options.time_budget_seconds,
                     .stages = call_->record().stages,
                     .solver = call_->record().solver});
      });
    }
    if (!status.ok()) call_->End(status);
    return status.ok();
  }

  Call* const call_;
  AnswerCache& cache_;
  CallsInFlight& in_flight_;
  std::string text_;     // of the request
  EqualCallsPtr calls_;  // with this one; set before the engine gets the request
};

// Writes one event after the other: at most one write is outstanding, and of each kind of event
// only the latest waits. The end is started once, after the last event has been written. Keeps
// itself alive until gRPC is done with it; the engine may keep it a little longer.
class SolveStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                          public SolveListener,
                          public std::enable_shared_from_this<SolveStream> {
 public:
  SolveStream(grpc::CallbackServerContext& context, const grpc::ByteBuffer& request,
              const CallEnvironment& environment)
      : context_(context), state_("SolveStream", context, request, environment) {}

  void Start(Engine& engine, const grpc::ByteBuffer& bytes) {
    self_ = shared_from_this();
    v1::SolveRequest message;
    SolveOrExport request;
    const absl::Status status = state_.Read(bytes, &message, &request);
    if (!status.ok()) {
      const grpc::Status end = state_.End(status);
      return state_.Finish([self = self_, end] { self->EndWith(end); });
    }
    solver_ = state_.record().solver;
    client_ = state_.record().client;
    own_ = OwnOf(message, request.solve);
    Begin(engine, std::move(request), state_.caller(), shared_from_this());
  }

  void Queued(size_t before) override {
    Add([&](Pending& pending) {
      pending.queued.emplace().mutable_queued()->set_before(static_cast<int64_t>(before));
    });
  }
  void Running(double fraction) override {
    Add([&](Pending& pending) {
      v1::Running& running = *pending.running.emplace().mutable_running();
      running.set_solver(solver_);
      running.set_fraction(fraction);
    });
  }
  // Drops a better schedule where too many responses wait to be read; the final answer follows.
  void Improved(const std::shared_ptr<const Answer>& best) override {
    Add([&](Pending& pending) {
      v1::SolveEvent event;
      FillResponse({best, Origin()}, own_, event.mutable_improved());
      auto unsent = std::make_unique<UnsentBytes>();
      const auto bytes = static_cast<int64_t>(event.ByteSizeLong());
      if (!unsent->Take(bytes, client_).ok()) return;
      pending.improved = std::move(event);
      pending.improved_unsent = std::move(unsent);
    });
  }
  void Done(absl::StatusOr<SolveResult> result) override {
    state_.BeginDelivery();
    if (!result.ok()) return EndWith(state_.End(result.status()));
    v1::SolveEvent event;
    const absl::Status filled = WithMemory([&] {
      FillResponse(*result, own_, event.mutable_answer());
      state_.record().answer = std::make_shared<const AnswerRecord>(RecordOf(*result));
    });
    const grpc::Status end = state_.End(filled, event.ByteSizeLong());
    EndWith(end, end.ok() ? std::optional(std::move(event)) : std::nullopt);
    if (!end.ok()) CancelWrite();
  }

 private:
  // The latest event of each kind that has not been written.
  struct Pending {
    std::optional<v1::SolveEvent> queued = {};
    std::optional<v1::SolveEvent> running = {};
    std::optional<v1::SolveEvent> improved = {};
    std::unique_ptr<UnsentBytes> improved_unsent = {};
    std::optional<v1::SolveEvent> answer = {};
  };

  // Changes the pending events under the lock. An event that does not fit into memory is dropped.
  template <typename Change>
  void Add(Change change) {
    {
      MutexLock lock(mutex_);
      if (end_.has_value()) return;  // the answer has been added
      (void)WithMemory([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { change(pending_); });
    }
    WriteNext();
  }

  // `answer` is the last event.
  void EndWith(const grpc::Status& status, std::optional<v1::SolveEvent> answer = std::nullopt) {
    {
      MutexLock lock(mutex_);
      pending_ = {.answer = std::move(answer)};
      end_ = status;
    }
    WriteNext();
  }

  // Starts a write or the end, if neither is under way. What is started is decided under the lock,
  // so that one thread starts it; it is started outside, since both may call back at once.
  void WriteNext() {
    bool finishes = false;
    {
      MutexLock lock(mutex_);
      if (writing_ || finished_) return;
      writing_ = TakeNext();
      finishes = !writing_ && end_.has_value();
      if (!writing_ && !finishes) return;
      finished_ = finishes;
      if (writing_ && !std::exchange(begun_, true)) state_.BeginAnswer();
    }
    if (finishes) {
      Finish(*end_);
    } else {
      StartWrite(&bytes_);
    }
  }

  // Cancels the call where its answer was refused while an earlier event is still being written: a
  // caller that never reads would otherwise hold that event's memory forever.
  void CancelWrite() {
    MutexLock lock(mutex_);
    if (writing_) context_.TryCancel();
  }

  // Serializes the next event into `bytes_`; false: there is none. An event that does not fit into
  // memory is left out; without its answer the stream ends with an error.
  bool TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (auto* next : {&pending_.queued, &pending_.running, &pending_.improved, &pending_.answer}) {
      if (!next->has_value()) continue;
      const v1::SolveEvent event = *std::move(*next);
      next->reset();
      bytes_.Clear();
      if (const absl::Status status = Serialize(event, &bytes_); !status.ok()) {
        if (event.has_answer()) end_ = state_.Failure(status);
        continue;
      }
      if (!event.has_answer()) state_.CountAnswer(bytes_.Length());
      if (event.has_improved()) written_unsent_ = std::move(pending_.improved_unsent);
      return true;
    }
    return false;
  }

  void OnWriteDone(bool /*ok*/) override {  // OnCancel() handles a caller that has left
    {
      MutexLock lock(mutex_);
      writing_ = false;
      written_unsent_.reset();
    }
    WriteNext();
  }
  void OnCancel() override { state_.Leave(); }
  void OnDone() override {
    state_.EndDelivery();
    self_.reset();
  }

  grpc::CallbackServerContext& context_;  // valid while a write or the end is outstanding
  CallState state_;
  std::string solver_;  // requested; written by Start(), as are
  std::string client_;  // the caller's name
  CallersOwn own_;
  std::shared_ptr<SolveStream> self_;
  grpc::ByteBuffer bytes_;  // of the event that is being written
  Mutex mutex_;
  Pending pending_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<UnsentBytes> written_unsent_ ABSL_GUARDED_BY(mutex_);  // of bytes_
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;                           // a write was started
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<grpc::Status> end_;  // written under the lock, before finished_ is set
};

}  // namespace

grpc::ServerUnaryReactor* StartSolve(Engine& engine, AnswerCache& cache, CallsInFlight& calls,
                                     const CallEnvironment& environment,
                                     grpc::CallbackServerContext& context,
                                     const grpc::ByteBuffer& request, grpc::ByteBuffer* response) {
  auto* const call = new Call("Solve", context, request, environment, response);
  absl::StatusOr<grpc::Slice> slice = call->state().Bytes(request);
  if (!slice.ok()) {
    call->End(slice.status());
    return call;
  }
  std::string storage;
  absl::string_view text;
  // Stays empty where memory runs out, which counts as a miss.
  (void)WithMemory([&] { text = RequestText(CallState::TextOf(*slice), &storage); });
  if (EndFromCache(text, engine, cache, call)) return call;
  std::make_shared<UnarySolve>(call, cache, calls)->Start(engine, request, *slice, text);
  return call;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartSolveStream(Engine& engine,
                                                             const CallEnvironment& environment,
                                                             grpc::CallbackServerContext& context,
                                                             const grpc::ByteBuffer& request) {
  const auto stream = std::make_shared<SolveStream>(context, request, environment);
  SolveStream* const reactor = stream.get();
  stream->Start(engine, request);
  return reactor;
}

}  // namespace stowage
