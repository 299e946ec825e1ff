#include "server/rpc/solve_call.h"

#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "google/protobuf/arena.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/request_message.h"
#include "server/rpc/message_limits.h"
#include "server/rpc/read_request.h"
#include "solver/base/mutex.h"

namespace stowage {
namespace {

v1::Origin::Source SourceOf(Source source) {
  switch (source) {
    case Source::kSolved:
      return v1::Origin::SOLVED;
    case Source::kMemoryCache:
      return v1::Origin::MEMORY_CACHE;
    case Source::kDiskCache:
      return v1::Origin::DISK_CACHE;
    case Source::kCoalesced:
      return v1::Origin::COALESCED;
  }
  return v1::Origin::SOURCE_UNSPECIFIED;
}

// Fills in the answer, and what the log says of it. The platform is the caller's own: a known
// answer has the name that another one gave to it.
void Respond(const Solved& solved, const v1::Platform& platform, v1::SolveResponse* response,
             CallRecord& record) {
  Fill(*solved.answer,
       {solved.queue_seconds, solved.solve_seconds, SourceOf(solved.source),
        ToHex(solved.fingerprint)},
       response);
  *response->mutable_platform() = platform;
  record.queue_seconds = solved.queue_seconds;
  record.solve_seconds = solved.solve_seconds;
  record.origin = solved.answer->solver;
  // Once for each solve, not for each who hears of it.
  if (solved.source == Source::kSolved) record.rejected = solved.answer->rejected;
  record.source = v1::Origin::Source_Name(response->origin().source());
  record.fingerprint = response->origin().fingerprint();
  record.outcome = v1::Outcome_Name(response->outcome());
  record.overhead = solved.answer->prediction.overhead;
  record.gap = solved.answer->prediction.gap;
}

// Solve, from bytes to bytes. Its messages lie in an arena: all their parts in a few blocks of
// memory, taken and given back at once, which halves the time that they take.
class UnarySolve final : public SolveListener {
 public:
  // `call` and `response` live until the call has ended.
  UnarySolve(Call* call, Replies& replies, std::string words, grpc::ByteBuffer* response)
      : call_(call), replies_(replies), words_(std::move(words)), response_(response) {}

  // False: the call has ended.
  bool ReadInto(const grpc::Slice& bytes, SolveRequest* question) {
    if (const auto much = TooMuchOf(grpc::ByteBuffer(&bytes, 1), *v1::SolveRequest::descriptor());
        !much.empty()) {
      call_->EndWithViolations(much);
      return false;
    }
    absl::Status parsed = absl::OkStatus();
    const absl::Status status = WithMemory([&] {
      request_ = google::protobuf::Arena::CreateMessage<v1::SolveRequest>(&arena_);
      parsed = Parse(bytes, request_);
    });
    if (!status.ok() || !parsed.ok()) {
      call_->End(status.ok() ? parsed : status);
      return false;
    }
    RecordQuestion(request_->solver(), request_->chain(), call_->record());
    return ReadOrEnd(*request_, question, call_);
  }

  void Done(absl::StatusOr<Solved> result) override {
    if (!result.ok()) return call_->End(result.status());
    const absl::Status status = WithMemory([&] { Answer(*result); });
    call_->End(status, static_cast<int64_t>(response_->Length()));
  }

 private:
  static constexpr size_t kFirstBlockBytes = 16 << 10;
  static constexpr size_t kMostBlockBytes = 256 << 10;

  static google::protobuf::ArenaOptions Blocks() {
    google::protobuf::ArenaOptions options;
    options.start_block_size = kFirstBlockBytes;
    options.max_block_size = kMostBlockBytes;
    return options;
  }

  static absl::Status Parse(const grpc::Slice& bytes, v1::SolveRequest* request) {
    if (request->ParseFromArray(bytes.begin(), static_cast<int>(bytes.size()))) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "the request is not a stowage.v1.SolveRequest; generate the client from scheduler.proto");
  }

  void Answer(const Solved& solved) {
    auto* const message = google::protobuf::Arena::CreateMessage<v1::SolveResponse>(&arena_);
    Respond(solved, request_->platform(), message, call_->record());
    bool owns = false;
    const grpc::Status written =
        grpc::SerializationTraits<v1::SolveResponse>::Serialize(*message, response_, &owns);
    if (!written.ok()) throw std::bad_alloc();  // there is no other reason
    if (solved.source == Source::kMemoryCache) Remember(solved);
  }

  // What is answered from memory today will be tomorrow, in the same words.
  void Remember(const Solved& solved) {
    Reply reply;
    if (!Read(*request_, &reply.question).empty()) return;
    reply.words = words_;
    reply.schedule = solved.answer->schedule;
    reply.is_infeasible = solved.answer->outcome == Outcome::kInfeasible;
    reply.response = *response_;
    reply.record = call_->record();
    replies_.Put(std::move(reply));
  }

  Call* const call_;
  Replies& replies_;
  const std::string words_;
  grpc::ByteBuffer* const response_;
  google::protobuf::Arena arena_{Blocks()};
  v1::SolveRequest* request_ = nullptr;  // set by ReadInto()
};

// Whether `call` was answered as it was before. Nobody is told anything new while the server
// drains.
bool EndAsBefore(const Engine& engine, Replies& replies, const std::string& words,
                 grpc::ByteBuffer* response, Call* call) {
  if (engine.draining()) return false;
  const ReplyPtr reply = replies.Get(words);
  if (reply == nullptr) return false;
  *response = reply->response;
  CopyAnswer(reply->record, &call->record());
  call->End(absl::OkStatus(), static_cast<int64_t>(reply->response.Length()));
  return true;
}

// Writes one event after the other. Keeps itself alive until gRPC is done with it; the engine may
// keep it a little longer.
class SolveStream final : public grpc::ServerWriteReactor<v1::SolveEvent>,
                          public SolveListener,
                          public std::enable_shared_from_this<SolveStream> {
 public:
  SolveStream(grpc::CallbackServerContext& context, const CallEnvironment& environment)
      : context_(context), state_("SolveStream", context, environment) {}

  void Refuse(const std::vector<FieldViolation>& violations) {
    self_ = shared_from_this();
    if (!state_.admission().ok()) return EndWith(state_.Ended(state_.admission()));
    EndWith(state_.Ended(violations));
  }

  void Start(Engine& engine, const v1::SolveRequest& message) {
    self_ = shared_from_this();
    if (!state_.admission().ok()) return EndWith(state_.Ended(state_.admission()));
    RecordQuestion(message.solver(), message.chain(), state_.record());
    SolveRequest question;
    std::vector<FieldViolation> violations = OverLimits(SizeOf(message), state_.limits());
    if (!violations.empty()) return EndWith(state_.Ended(violations));
    const absl::Status read = WithMemory([&] { violations = Read(message, &question); });
    if (!read.ok()) return EndWith(state_.Ended(read));
    if (!violations.empty()) return EndWith(state_.Ended(violations));
    solver_ = state_.record().solver;
    platform_ = message.platform();
    engine.Solve(std::move(question), state_.caller(), shared_from_this());
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
  // Nothing where too much waits to be read already; the final answer will come.
  void Improved(const std::shared_ptr<const Answer>& best) override {
    Add([&](Pending& pending) {
      v1::SolveEvent event;
      Fill(*best, AnswerTiming{}, event.mutable_improved());
      *event.mutable_improved()->mutable_platform() = platform_;
      auto share = std::make_unique<Unsent>();
      if (!share->Take(static_cast<int64_t>(event.ByteSizeLong())).ok()) return;
      pending.improved = std::move(event);
      pending.improved_share = std::move(share);
    });
  }
  void Done(absl::StatusOr<Solved> result) override {
    if (!result.ok()) return EndWith(state_.Ended(result.status()));
    v1::SolveEvent event;
    const absl::Status status =
        WithMemory([&] { Respond(*result, platform_, event.mutable_answer(), state_.record()); });
    const grpc::Status end = state_.Ended(status, static_cast<int64_t>(event.ByteSizeLong()));
    EndWith(end, end.ok() ? std::optional(std::move(event)) : std::nullopt);
    if (!end.ok()) BreakOff();
  }

 private:
  // The latest of each kind that has not been written.
  struct Pending {
    std::optional<v1::SolveEvent> queued = {};
    std::optional<v1::SolveEvent> running = {};
    std::optional<v1::SolveEvent> improved = {};
    std::unique_ptr<Unsent> improved_share = {};
    std::optional<v1::SolveEvent> answer = {};
  };

  template <typename Change>
  void Add(Change change) {
    {
      MutexLock lock(mutex_);
      if (end_.has_value()) return;  // late news
      (void)WithMemory([&] { change(pending_); });
    }
    WriteNext();
  }

  // Nothing comes after `answer`.
  void EndWith(const grpc::Status& status, std::optional<v1::SolveEvent> answer = std::nullopt) {
    {
      MutexLock lock(mutex_);
      pending_ = {.answer = std::move(answer)};
      end_ = status;
    }
    WriteNext();
  }

  // What is started here may call back at once, so not under the lock.
  void WriteNext() {
    bool finishes = false;
    {
      MutexLock lock(mutex_);
      if (writing_ || finished_) return;
      writing_ = TakeNext();
      finishes = !writing_ && end_.has_value();
      if (!writing_ && !finishes) return;
      finished_ = finishes;
    }
    if (finishes) {
      Finish(*end_);
    } else {
      StartWrite(&event_);
    }
  }

  // Who gets no answer and has not read what came before it would hold that for ever.
  void BreakOff() {
    MutexLock lock(mutex_);
    if (writing_) context_.TryCancel();
  }

  bool TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (auto* next : {&pending_.queued, &pending_.running, &pending_.improved, &pending_.answer}) {
      if (!next->has_value()) continue;
      event_ = **std::move(next);
      next->reset();
      if (event_.has_improved()) event_share_ = std::move(pending_.improved_share);
      return true;
    }
    return false;
  }

  void OnWriteDone(bool /*ok*/) override {  // a caller who left is noticed by OnCancel()
    {
      MutexLock lock(mutex_);
      writing_ = false;
      event_share_.reset();
    }
    WriteNext();
  }
  void OnCancel() override { state_.Leave(); }
  void OnDone() override { self_.reset(); }

  grpc::CallbackServerContext& context_;  // lives as long as a write or the end is outstanding
  CallState state_;
  std::string solver_;     // set by Start(), as is
  v1::Platform platform_;  // the caller's
  std::shared_ptr<SolveStream> self_;
  v1::SolveEvent event_;  // that is being written
  Mutex mutex_;
  Pending pending_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Unsent> event_share_ ABSL_GUARDED_BY(mutex_);  // of event_
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<grpc::Status> end_;  // written once, under the lock
};

}  // namespace

grpc::ServerUnaryReactor* StartSolve(Engine& engine, const CallEnvironment& environment,
                                     Replies& replies, grpc::CallbackServerContext& context,
                                     const grpc::ByteBuffer& request, grpc::ByteBuffer* response) {
  auto* const call = new Call("Solve", context, environment);
  if (!call->admission().ok()) {
    call->End(call->admission());
    return call;
  }
  grpc::Slice bytes;
  if (!request.Valid() || !request.DumpToSingleSlice(&bytes).ok()) {
    call->End(context.IsCancelled()
                  ? absl::CancelledError("nobody waits for the answer any more")
                  : absl::InvalidArgumentError("the call has no request; send a SolveRequest"));
    return call;
  }
  std::string words;
  (void)WithMemory([&] { words = WordsOf(bytes); });  // empty: they are not known
  if (EndAsBefore(engine, replies, words, response, call)) return call;
  const auto solve = std::make_shared<UnarySolve>(call, replies, std::move(words), response);
  SolveRequest question;
  if (solve->ReadInto(bytes, &question)) engine.Solve(std::move(question), call->caller(), solve);
  return call;
}

grpc::ServerWriteReactor<v1::SolveEvent>* StartSolveStream(Engine& engine,
                                                           const CallEnvironment& environment,
                                                           grpc::CallbackServerContext& context,
                                                           const v1::SolveRequest& request) {
  const auto stream = std::make_shared<SolveStream>(context, environment);
  SolveStream* const reactor = stream.get();
  stream->Start(engine, request);
  return reactor;
}

grpc::ServerWriteReactor<v1::SolveEvent>* RefuseSolveStream(
    const CallEnvironment& environment, grpc::CallbackServerContext& context,
    const std::vector<FieldViolation>& violations) {
  const auto stream = std::make_shared<SolveStream>(context, environment);
  SolveStream* const reactor = stream.get();
  stream->Refuse(violations);
  return reactor;
}

}  // namespace stowage
