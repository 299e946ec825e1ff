#include "server/rpc/health_service.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/support/slice.h"
#include "server/rpc/calls/brief_call.h"
#include "server/rpc/calls/call.h"
#include "server/rpc/messages/message_limits.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

using grpc::health::v1::HealthCheckRequest;

absl::Status Read(const grpc::ByteBuffer& bytes, HealthCheckRequest* request) {
  grpc::Slice slice;
  if (bytes.Valid() && bytes.Length() <= kMaxBriefRequestBytes &&
      bytes.DumpToSingleSlice(&slice).ok() &&
      request->ParseFromArray(slice.begin(), static_cast<int>(slice.size()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("the request is not a HealthCheckRequest of at ",
                                                 "most ", kMaxBriefRequestBytes, " bytes"));
}

}  // namespace

class HealthService::Checking final : public BriefCall<grpc::ServerUnaryReactor> {
 public:
  Checking(HealthService& service, grpc::CallbackServerContext& context,
           const grpc::ByteBuffer& bytes, grpc::ByteBuffer* out)
      : BriefCall(context, service.admission_, service.refusals_, RequestLength(bytes)) {
    if (!EndsAsRefused()) EndWith(Answer(service, bytes, out));
  }

 private:
  static absl::Status Answer(const HealthService& service, const grpc::ByteBuffer& bytes,
                             grpc::ByteBuffer* out) {
    HealthCheckRequest request;
    RETURN_IF_ERROR(Read(bytes, &request));
    State response;
    response.set_status(service.StateOf(request.service()));
    if (response.status() == State::SERVICE_UNKNOWN) {
      return absl::NotFoundError("the server has no such service");
    }
    return Serialize(response, out);
  }
};

// Writes the state, and again whenever it is another one, until its caller leaves. The service owns
// it. Writes are started outside the lock, since they may call back at once.
class HealthService::Watching final : public BriefCall<grpc::ServerWriteReactor<grpc::ByteBuffer>> {
 public:
  Watching(HealthService& service, grpc::CallbackServerContext& context,
           const grpc::ByteBuffer& bytes)
      : BriefCall(context, service.admission_, service.refusals_, RequestLength(bytes)),
        service_(service) {
    if (EndsAsRefused()) return;
    HealthCheckRequest request;
    const absl::Status status = Read(bytes, &request);
    name_ = request.service();
    status.ok() ? Begin() : EndWith(status);
  }

  // Unless a write is outstanding, after which it is called again.
  void WriteChange() {
    const State::ServingStatus now = service_.StateOf(name_);
    {
      MutexLock lock(mutex_);
      if (writing_ || ended_ || now == written_) return;
      State response;
      response.set_status(now);
      bytes_.Clear();
      if (!Serialize(response, &bytes_).ok()) return;
      writing_ = true;
      written_ = now;
    }
    caller().counted.Answer(bytes_.Length());
    StartWrite(&bytes_);
  }

 private:
  void Begin() {
    {
      MutexLock lock(mutex_);
      ended_ = false;
    }
    WriteChange();
  }
  void OnWriteDone(bool /*ok*/) override {
    bool ends = false;
    {
      MutexLock lock(mutex_);
      writing_ = false;
      ends = ended_;
    }
    ends ? Finish(grpc::Status::CANCELLED) : WriteChange();
  }
  void OnCancel() override {
    BriefCall::OnCancel();
    {
      MutexLock lock(mutex_);
      if (std::exchange(ended_, true) || writing_) return;
    }
    Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { service_.Forget(*this); }

  HealthService& service_;
  std::string name_;  // of the service
  Mutex mutex_;
  grpc::ByteBuffer bytes_;  // unchanged while it is being written
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = true;  // or about to; no write begins
  State::ServingStatus written_ ABSL_GUARDED_BY(mutex_) = State::UNKNOWN;  // last
};

HealthService::HealthService(std::set<std::string> services, Admission& admission,
                             DelayedRefusals& refusals)
    : services_(std::move(services)), admission_(admission), refusals_(refusals) {
  services_.insert("");
}

HealthService::~HealthService() = default;

HealthService::State::ServingStatus HealthService::StateOf(const std::string& service) const {
  if (services_.count(service) == 0) return State::SERVICE_UNKNOWN;
  return serving_ ? State::SERVING : State::NOT_SERVING;
}

void HealthService::SetServing(bool serving) {
  serving_ = serving;
  std::map<Watching*, std::shared_ptr<Watching>> watchers;
  {
    MutexLock lock(mutex_);
    watchers = watchers_;
  }
  for (const auto& [each, watcher] : watchers) watcher->WriteChange();
}

void HealthService::Forget(Watching& watcher) {
  std::shared_ptr<Watching> last;  // destroyed after the lock
  MutexLock lock(mutex_);
  const auto found = watchers_.find(&watcher);
  last = std::move(found->second);
  watchers_.erase(found);
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response) {
  return new Checking(*this, *context, *request, response);
}

// gRPC learns of the watcher, and may end it, only once this has returned.
grpc::ServerWriteReactor<grpc::ByteBuffer>* HealthService::Watch(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  auto watcher = std::make_shared<Watching>(*this, *context, *request);
  MutexLock lock(mutex_);
  return watchers_.emplace(watcher.get(), watcher).first->second.get();
}

}  // namespace stowage
