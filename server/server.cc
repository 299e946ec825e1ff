#include "server/server.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <random>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/http_routes.h"
#include "server/net/allowed_hosts.h"
#include "server/net/descriptors.h"
#include "server/observe/log.h"
#include "server/process_limits.h"
#include "server/rpc/callers/begun_streams.h"
#include "server/rpc/callers/connection_limits.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// How long responses may take to be sent once the engine has drained.
constexpr std::chrono::seconds kFlush{1};

// Who calls is decided by tokens where there are some.
Admission::Options AdmissionOptions(double calls_per_second, const Tokens* tokens,
                                    const CurrentProxies& proxies,
                                    const ConnectionAccounts& accounts) {
  Admission::Options admission = {
      .proxies = &proxies, .calls_per_second = calls_per_second, .accounts = &accounts};
  if (tokens == nullptr) return admission;
  admission.authenticate =
      [tokens](absl::string_view authorization) -> absl::StatusOr<NamedClient> {
    ASSIGN_OR_RETURN(TokenHolder holder, tokens->HolderOf(authorization));
    return NamedClient{std::move(holder.name), holder.limits};
  };
  return admission;
}

// Health, reflection and unknown methods: apart from the jobs' rate, so that a busy client is not
// taken for a dead one.
Admission::Options OpenAdmissionOptions(const CurrentProxies& proxies,
                                        const ConnectionAccounts& accounts) {
  // A thousand clients of one host, or behind one proxy, may check every ten seconds.
  constexpr double kCallsPerSecond = 100;
  return AdmissionOptions(kCallsPerSecond, /*tokens=*/nullptr, proxies, accounts);
}

// `draining`: a second signal would end the wait, or the process, at once.
OperatorService::Actions OperatorActions(
    std::atomic<bool>& draining, std::function<v1::ServerStatus(std::optional<double>)> status) {
  return {.set_log_level = SetLogLevel,
          .status = std::move(status),
          // main() waits for the signal, and drains.
          .drain = [&draining] {
            if (!draining.exchange(true)) kill(getpid(), SIGTERM);
          }};
}

std::unique_ptr<SpanExporter> NewSpanExporter(const ServerOptions& options,
                                              const std::string& version) {
  if (options.trace_collector.address.empty()) return nullptr;
  return std::make_unique<SpanExporter>(
      options.trace_collector,
      TraceResource{.version = version, .instance = absl::StrCat(OwnHostName(), ":", getpid())});
}

std::unique_ptr<CallTracer> NewTracer(const ServerOptions& options, SpanExporter* spans) {
  if (spans == nullptr) return nullptr;
  std::random_device random;
  const uint64_t seed = uint64_t{random()} << 32 | random();
  return std::make_unique<CallTracer>(options.trace_ratio, seed, *spans);
}

// Address and login, which change together.
bool IsOfSharedCache(absl::string_view option) {
  return option == "shared-cache" || option == "shared-cache-user-file" ||
         option == "shared-cache-ca";
}

// Of the services, through a message of each: its descriptor is linked in only where it is used.
std::vector<const google::protobuf::FileDescriptor*> ServiceFiles(bool has_operators) {
  std::vector<const google::protobuf::FileDescriptor*> files = {
      v1::SolveRequest::descriptor()->file(),
      grpc::health::v1::HealthCheckRequest::descriptor()->file(),
      grpc::reflection::v1alpha::ServerReflectionRequest::descriptor()->file()};
  if (has_operators) files.push_back(v1::DrainRequest::descriptor()->file());
  return files;
}

}  // namespace

Server::Server(const ParsedOptions& parsed, const std::string& version,
               std::unique_ptr<Security> security)
    : options_(parsed.options),
      in_force_(parsed.texts),
      lame_duck_seconds_(options_.lame_duck_seconds),
      grace_seconds_(options_.grace_seconds),
      metrics_(version),
      reports_(options_.log, metrics_, [this] { unsafe_.LogNew(); }),
      handshakes_(reports_),
      proxies_(options_.trusted_proxies),
      spans_(NewSpanExporter(options_, version)),
      tracer_(NewTracer(options_, spans_.get())),
      unsafe_(options_, proxies_, *security),
      security_(std::move(security)),
      tiers_(options_, reports_),
      cache_({options_.cache_bytes, options_.client_cache_share}, tiers_.in_use(), reports_),
      engine_(options_.engine, &cache_, &reports_, tiers_.leases()),
      admission_(AdmissionOptions(options_.client_calls_per_second, security_->tokens(), proxies_,
                                  accounts_)),
      operator_admission_(AdmissionOptions(options_.client_calls_per_second,
                                           security_->operator_tokens(), proxies_, accounts_)),
      open_admission_(OpenAdmissionOptions(proxies_, accounts_)),
      service_(engine_, cache_,
               {.observer = reports_,
                .admission = admission_,
                .refusals = refusals_,
                .version = version,
                .limits = options_.limits,
                .tracer = tracer_.get()}),
      health_service_({v1::Scheduler::service_full_name()}, open_admission_, refusals_),
      reflection_service_(ServiceFiles(security_->operator_tokens() != nullptr), open_admission_,
                          refusals_),
      unknown_methods_(open_admission_, refusals_) {
  if (security_->operator_tokens() != nullptr) {
    operator_service_ = std::make_unique<OperatorService>(
        OperatorService::Parts{engine_, reports_, refusals_, operator_admission_},
        OperatorActions(draining_, [this](std::optional<double> since_seconds) {
          return Status(since_seconds);
        }));
  }
  security_->Watch(reports_);
}

Server::~Server() = default;

MetricsSnapshot Server::Snapshot() const {
  Gauges gauges;
  gauges.engine = engine_.stats();
  gauges.tiers = tiers_.gauges(cache_);
  if (const SolveLeases* const leases = tiers_.leases()) gauges.leases = leases->lease_stats();
  gauges.memory = cache_.memory_stats();
  gauges.responses = cache_.response_stats();
  gauges.memory_limit_bytes = cache_.memory_bytes();
  gauges.solve_limit_bytes = options_.engine.all_solves_bytes;
  gauges.request_limit_bytes = gauges.engine.max_request_bytes;
  gauges.certificate_end_seconds = security_->certificate_end_seconds();
  gauges.suppressed_lines = reports_.suppressed_lines();
  gauges.dropped_lines = DroppedLogLines();
  if (spans_ != nullptr) gauges.spans = spans_->counts();
  gauges.ready = ready_;
  gauges.process = ReadProcess();
  return metrics_.Collect(std::move(gauges));
}

v1::ServerStatus Server::Status(std::optional<double> since_seconds) {
  v1::ServerStatus status = history_.Look(Snapshot(), since_seconds);
  MutexLock lock(in_force_mutex_);
  for (const OptionText& text : in_force_) {
    v1::OptionText* const option = status.add_options();
    option->set_name(text.name);
    option->set_value(text.value);
  }
  return status;
}

void Server::RememberStatus() {
  history_.Remember(Snapshot());
  timers_.At(Timers::Clock::now() + StatusHistory::kPeriod, [this] { RememberStatus(); });
}

PortSharing Server::sharing() const {
  return options_.reuse_port ? PortSharing::kShared : PortSharing::kAlone;
}

absl::Status Server::StartHttp() {
  if (options_.http.empty()) return absl::OkStatus();
  HttpPort::Protection protection;
  if (options_.security.http_tls) {
    protection.tls = [this] { return security_->HttpContext(); };
    protection.handshake_failed = [this](FailedHandshake handshake) {
      handshake.reason = HandshakeFailureReason(handshake.message);
      reports_.HandshakeFailed(handshake);
    };
  }
  if (const Tokens* const tokens = security_->http_tokens(); tokens != nullptr) {
    protection.authenticate = [tokens](absl::string_view authorization) {
      return tokens->HolderOf(authorization).status();
    };
  }
  const HttpSources sources = {
      .metrics = [this] { return Snapshot().Text(); },
      .status = [this](auto since_seconds) { return Status(since_seconds); },
      .ready = [this] { return ready_.load(); },
      .needs_token = static_cast<bool>(protection.authenticate)};
  // Another site has neither a token nor a certificate of this server's name.
  if (!protection.authenticate && !protection.tls) {
    std::vector<std::string> names = options_.http_hosts;
    names.insert(names.end(), {options_.http, OwnHostName()});
    protection.check_host = [hosts = AllowedHosts(names)](absl::string_view host) {
      return hosts.Check(host);
    };
  }
  ASSIGN_OR_RETURN(http_, HttpPort::Start(options_.http, reports_, HttpRoutes(sources),
                                          std::move(protection), sharing()));
  return absl::OkStatus();
}

// gRPC opens no port of its own: it gets its connections from Listener, through `acceptor`. Health
// says NOT_SERVING until every part has started, so that no caller is sent to a server whose start
// may still fail; the port of calls, which it may share, is the last part. A failed start drains,
// which grpc::Server needs before it is destroyed.
absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ParsedOptions& parsed,
                                                      const std::string& version) {
  const ServerOptions& options = parsed.options;
  ASSIGN_OR_RETURN(std::unique_ptr<Security> security, Security::Load(options.security));
  std::unique_ptr<Server> server(new Server(parsed, version, std::move(security)));
  grpc::ServerBuilder builder;
  auto acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      server->security_->Credentials());
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  const int64_t arriving_bytes = int64_t{16} * options.max_message_bytes;
  LimitConnections(arriving_bytes, builder);
  builder.RegisterService(&server->service_);
  builder.RegisterService(&server->health_service_);
  builder.RegisterService(&server->reflection_service_);
  builder.RegisterCallbackGenericService(&server->unknown_methods_);
  if (server->operator_service_ != nullptr) {
    builder.RegisterService(server->operator_service_.get());
  }
  server->grpc_ = builder.BuildAndStart();
  if (server->grpc_ == nullptr) return absl::InternalError("gRPC does not start");
  if (const absl::Status started = server->StartHttp(); !started.ok()) {
    server->Drain();
    return started;
  }
  server->tiers_.WarmUp(options);  // before callers come, who would be kept waiting
  absl::StatusOr<std::unique_ptr<Listener>> listener = Listener::Start(
      options.listen,
      {.max_descriptors = MostConnectionDescriptors(),
       .host_connections = options.host_connections,
       .is_exempt =
           [proxies = &server->proxies_](const std::string& address) {
             const absl::optional<IpAddress> ip = ParseIp(address);
             return ip.has_value() && proxies->Get()->Contains(*ip);
           },
       .accounts = &server->accounts_,
       .streams_of = [streams = std::make_shared<BegunStreams>()](
                         const std::string& peer) { return streams->Of(peer); },
       // What gRPC holds of requests, and as much again in the system's buffers.
       .governor = {.all_bytes = 2 * arriving_bytes},
       .observer = &server->reports_,
       .sharing = server->sharing()},
      [acceptor = std::move(acceptor)](int fd) {
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
        connection.fd = fd;
        acceptor->HandleNewConnection(&connection);
      });
  if (!listener.ok()) {
    server->Drain();
    return absl::Status(listener.status().code(),
                        absl::StrCat("--listen: ", listener.status().message()));
  }
  server->listener_ = *std::move(listener);
  server->RememberStatus();
  server->health_service_.SetServing(true);
  server->ready_ = true;
  server->LogWarnings();
  return server;
}

// The shared cache comes first, since it alone may fail.
absl::StatusOr<ConfigChanges> Server::Apply(const ParsedOptions& wanted) {
  ASSIGN_OR_RETURN(const bool is_replaced, ReplaceSharedCache(wanted));
  const auto apply = [&](absl::string_view option) {
    return IsOfSharedCache(option) ? is_replaced : Set(option, wanted.options);
  };
  MutexLock lock(in_force_mutex_);
  return ApplyChanges(wanted.texts, apply, &in_force_);
}

// Whether there is another one from now on. To begin or end having one takes a restart. The lock is
// not held while the new one is asked: readers of the status wait for it.
absl::StatusOr<bool> Server::ReplaceSharedCache(const ParsedOptions& wanted) {
  if (!tiers_.has_shared() || wanted.options.shared_cache.seeds.empty()) return false;
  std::vector<OptionText> in_force;
  {
    MutexLock lock(in_force_mutex_);
    in_force = in_force_;
  }
  const auto changes = [&in_force](const OptionText& option) {
    return IsOfSharedCache(option.name) && !absl::c_linear_search(in_force, option);
  };
  if (!absl::c_any_of(wanted.texts, changes)) return false;
  RETURN_IF_ERROR(tiers_.ReplaceShared(wanted.options));
  return true;
}

// A line for each option that need not wait for a restart. A limit on address space has been shared
// out before the threads started: under one, what takes memory does wait.
bool Server::Set(absl::string_view option, const ServerOptions& options) {
  const bool takes_memory = option == "cache-memory" || option == "request-memory";
  if (takes_memory && AddressSpaceLimit().has_value()) return false;
  using Setter = void (*)(Server&, const ServerOptions&);
  static constexpr std::pair<absl::string_view, Setter> kSetters[] = {
      {"access-log", [](Server& self, const ServerOptions& to) { self.reports_.SetLog(to.log); }},
      {"cache-memory",
       [](Server& self, const ServerOptions& to) { self.cache_.SetMemoryBytes(to.cache_bytes); }},
      {"client-limit",
       [](Server& self, const ServerOptions& to) {
         self.engine_.SetClientLimit(to.engine.client_limit);
       }},
      {"client-log-rate",
       [](Server& self, const ServerOptions& to) { self.reports_.SetLog(to.log); }},
      {"client-rate",
       [](Server& self, const ServerOptions& to) {
         self.admission_.SetCallsPerSecond(to.client_calls_per_second);
         self.operator_admission_.SetCallsPerSecond(to.client_calls_per_second);
       }},
      {"grace",
       [](Server& self, const ServerOptions& to) { self.grace_seconds_ = to.grace_seconds; }},
      {"host-connections",
       [](Server& self, const ServerOptions& to) {
         self.listener_->SetHostConnections(to.host_connections);
       }},
      {"lame-duck",
       [](Server& self, const ServerOptions& to) {
         self.lame_duck_seconds_ = to.lame_duck_seconds;
       }},
      {"log-level", [](Server&, const ServerOptions& to) { (void)SetLogLevel(to.log_level); }},
      {"max-solve-time",
       [](Server& self, const ServerOptions& to) {
         self.engine_.SetMaxSolveSeconds(to.engine.max_solve_seconds);
       }},
      {"queue-length",
       [](Server& self, const ServerOptions& to) {
         self.engine_.SetQueueLength(to.engine.queue_length);
       }},
      {"request-memory",
       [](Server& self, const ServerOptions& to) {
         self.engine_.SetRequestBytes(to.engine.request_bytes);
       }},
      {"trace-ratio",
       [](Server& self, const ServerOptions& to) {
         if (self.tracer_ != nullptr) self.tracer_->SetRatio(to.trace_ratio);
       }},
      {"trusted-proxy",
       [](Server& self, const ServerOptions& to) { self.proxies_.Set(to.trusted_proxies); }},
  };
  for (const auto& [name, set] : kSetters) {
    if (name != option) continue;
    set(*this, options);
    return true;
  }
  return false;
}

void Server::BecomeLameDuck() {
  draining_ = true;
  ready_ = false;
  health_service_.SetServing(false);
  if (!options_.reuse_port) return;
  if (listener_ != nullptr) listener_->StopListening();
  if (http_ != nullptr) http_->StopListening();
}

// Connections are accepted until the engine has drained, unless another server gets them: callers
// that come meanwhile get UNAVAILABLE, which they can act on, rather than a connection that is
// refused.
void Server::Drain() {
  BecomeLameDuck();
  const auto grace = std::chrono::duration<double>(grace_seconds_);
  engine_.Drain(std::chrono::steady_clock::now() +
                std::chrono::duration_cast<std::chrono::steady_clock::duration>(grace));
  listener_ = nullptr;
  grpc_->Shutdown(std::chrono::system_clock::now() + kFlush);
  grpc_->Wait();
}

}  // namespace stowage
