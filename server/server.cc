#include "server/server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "server/cache/disk_tier.h"
#include "server/ops/log.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// How long answers may take to leave once their work is done.
constexpr std::chrono::seconds kFlush{1};

constexpr const char* kInUse =
    "Address already in use: stop the process that holds it, or choose another with --listen";

struct HostPort {
  std::string host;
  std::string port;
};

// "127.0.0.1:80", "[::1]:80"
HostPort SplitAddress(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return {std::string(address), ""};
  absl::string_view host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return {std::string(host), std::string(address.substr(colon + 1))};
}

// gRPC says only that it could not listen; trying once by hand tells why.
std::string WhyNot(const std::string& address) {
  if (absl::StartsWith(address, "unix:"))
    return "check the directory, its permissions and the path's length";
  const HostPort target = SplitAddress(address);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int resolved = getaddrinfo(target.host.c_str(), target.port.c_str(), &hints, &found);
  if (resolved != 0) return absl::StrCat(gai_strerror(resolved), "; write host:port");
  const int fd = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
  const bool bound = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  freeaddrinfo(found);
  if (bound) return "the address is free now; try again";
  if (error == EADDRINUSE) return kInUse;
  return std::strerror(error);
}

// gRPC removes a socket that is there before it listens, even from under a server that lives.
bool SomeoneListensOn(const std::string& address) {
  if (!absl::StartsWith(address, "unix:")) return false;
  const std::string path = address.substr(5);
  sockaddr_un target{};
  if (path.size() >= sizeof(target.sun_path)) return false;
  target.sun_family = AF_UNIX;
  std::memcpy(target.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected =
      fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&target), sizeof(target)) == 0;
  if (fd >= 0) close(fd);
  return connected;
}

// Null, and a line in the log, where there is none to be had: the service goes on without it.
std::unique_ptr<CacheTier> OpenStore(const ServerOptions& options, Observer& watch) {
  if (options.cache_dir.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<DiskTier>> tier =
      DiskTier::Open(options.cache_dir, options.disk_bytes);
  if (tier.ok()) return *std::move(tier);
  watch.StoreFailed(tier.status());
  return nullptr;
}

std::string WithPort(const std::string& address, int port) {
  if (absl::StartsWith(address, "unix:")) return address;
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

// Answers in memory are kept twice: for whoever asks such a question, and as they went over the
// wire for whoever asks in the same bytes.
int64_t ReplyBytes(const ServerOptions& options) { return options.engine.cache_bytes / 2; }

EngineOptions EngineOptionsOf(const ServerOptions& options) {
  EngineOptions engine = options.engine;
  engine.cache_bytes -= ReplyBytes(options);
  return engine;
}

}  // namespace

class Server::Watch final : public Observer {
 public:
  explicit Watch(Metrics& metrics) : metrics_(metrics) {}

  void CallBegan(const std::string& method) override { metrics_.CallBegan(method); }
  void CallEnded(const CallRecord& record) override {
    log_.CallEnded(record);
    metrics_.CallEnded(record);
  }
  void ExecutionReported(const ExecutionReport& report) override {
    log_.ExecutionReported(report);
    metrics_.ExecutionReported(report);
  }
  void StoreFailed(const absl::Status& status) override {
    log_.StoreFailed(status);
    metrics_.StoreFailed(status);
  }
  void CredentialsReplaced(const std::string& which, const absl::Status& status) override {
    log_.CredentialsReplaced(which, status);
    metrics_.CredentialsReplaced(which, status);
  }

 private:
  LogObserver log_;
  Metrics& metrics_;
};

Server::Server(const ServerOptions& options, const std::string& version,
               std::unique_ptr<Security> security)
    : options_(options),
      metrics_(version),
      watch_(std::make_unique<Watch>(metrics_)),
      security_(std::move(security)),
      disk_(OpenStore(options, *watch_)),
      engine_(EngineOptionsOf(options), disk_.get(), watch_.get()),
      service_(engine_,
               {.observer = *watch_, .tokens = security_->tokens(), .limits = options.limits},
               ReplyBytes(options)) {
  security_->Watch(*watch_);
}

Gauges Server::gauges() const {
  Gauges gauges;
  gauges.engine = engine_.stats();
  if (disk_ != nullptr) {
    gauges.disk = disk_->stats();
    gauges.disk_limit_bytes = options_.disk_bytes;
  }
  gauges.memory_limit_bytes = EngineOptionsOf(options_).cache_bytes;
  gauges.replies = service_.reply_stats();
  gauges.reply_limit_bytes = ReplyBytes(options_);
  gauges.solve_limit_bytes = options_.engine.all_solves_bytes;
  gauges.certificate_end_seconds = security_->certificate_end_seconds();
  gauges.ready = ready_;
  return gauges;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      const std::string& version) {
  const auto cannot_listen = [&options](const std::string& why) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", options.listen, ": ", why));
  };
  if (SomeoneListensOn(options.listen)) return cannot_listen(kInUse);
  ASSIGN_OR_RETURN(std::unique_ptr<Security> security, Security::Load(options.security));
  std::unique_ptr<Server> server(new Server(options, version, std::move(security)));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.listen, server->security_->Credentials(), &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // or two servers share a port silently
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.RegisterService(&server->service_);
  server->grpc_ = builder.BuildAndStart();
  if (server->grpc_ == nullptr) return cannot_listen(WhyNot(options.listen));
  server->address_ = WithPort(options.listen, port);
  if (!options.http.empty()) {
    Server* const self = server.get();
    absl::StatusOr<std::unique_ptr<HttpPort>> http = HttpPort::Start(
        options.http, {.metrics = [self] { return self->metrics_.Text(self->gauges()); },
                       .ready = [self] { return self->ready_.load(); }});
    if (!http.ok()) {
      server->Drain();
      return http.status();
    }
    server->http_ = *std::move(http);
  }
  grpc::HealthCheckServiceInterface* const health = server->grpc_->GetHealthCheckService();
  health->SetServingStatus(v1::Scheduler::service_full_name(), true);
  health->SetServingStatus(true);
  server->ready_ = true;
  return server;
}

void Server::Drain() {
  ready_ = false;
  grpc_->GetHealthCheckService()->SetServingStatus(false);
  const auto grace = std::chrono::duration<double>(options_.grace_seconds);
  engine_.Drain(std::chrono::steady_clock::now() +
                std::chrono::duration_cast<std::chrono::steady_clock::duration>(grace));
  grpc_->Shutdown(std::chrono::system_clock::now() + kFlush);
  grpc_->Wait();
}

}  // namespace stowage
