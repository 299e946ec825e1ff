// The running service: constructs the parts and connects them, nothing else.
#ifndef STOWAGE_SERVER_SERVER_H_
#define STOWAGE_SERVER_SERVER_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server.h"
#include "server/cache/answer_cache.h"
#include "server/cache_tiers.h"
#include "server/config_changes.h"
#include "server/engine/engine.h"
#include "server/engine/limits/connection_accounts.h"
#include "server/engine/limits/delayed_refusals.h"
#include "server/net/http_port.h"
#include "server/net/listener.h"
#include "server/observe/metrics.h"
#include "server/observe/span_exporter.h"
#include "server/observe/status.h"
#include "server/parse_options.h"
#include "server/reports.h"
#include "server/rpc/callers/current_proxies.h"
#include "server/rpc/calls/call_tracer.h"
#include "server/rpc/health_service.h"
#include "server/rpc/operator_service.h"
#include "server/rpc/reflection_service.h"
#include "server/rpc/scheduler_service.h"
#include "server/rpc/unknown_methods.h"
#include "server/security/handshake_failures.h"
#include "server/security/security.h"
#include "server/server_options.h"
#include "server/unsafe_log.h"
#include "solver/base/mutex.h"

namespace stowage {

// Serves from Start() until Drain(), which must be called before it is destroyed.
class Server {
 public:
  // Listens and serves; health says SERVING when it returns.
  // Errors: UNAVAILABLE when an address cannot be listened on, with the reason ("Address already
  // in use") and the remedy; those of Security::Load(). A cache directory that cannot be used is no
  // error: the server then runs with the memory cache alone, and logs it.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ParsedOptions& parsed,
                                                       const std::string& version);
  ~Server();

  // Where it listens, with the port that was chosen: "127.0.0.1:43211".
  const std::string& address() const { return listener_->address(); }
  // Of the port for operators; empty: there is none.
  std::string http_address() const { return http_ != nullptr ? http_->address() : ""; }

  // Sets the options that can change while the server runs to their values in `wanted`. One thread
  // at a time, not during Drain(). Errors: those of CacheTiers::ReplaceShared(), and nothing
  // changes.
  absl::StatusOr<ConfigChanges> Apply(const ParsedOptions& wanted);
  // Reads certificates and tokens again. What is wrong with them is logged, and changes nothing.
  void ReadCredentials() { security_->ReadNow(); }
  // As UnsafeLog::LogNew().
  void LogWarnings() { unsafe_.LogNew(); }

  double lame_duck_seconds() const { return lame_duck_seconds_; }
  double grace_seconds() const { return grace_seconds_; }

  // Health turns NOT_SERVING and /readyz 503, so that balancers send new calls elsewhere; those
  // that come are answered as before. With --reuse-port it no longer listens.
  void BecomeLameDuck();
  // Becomes a lame duck if it is none, new requests get UNAVAILABLE, running ones have the grace
  // period to finish. Blocks until all is done.
  void Drain();

 private:
  Server(const ParsedOptions& parsed, const std::string& version,
         std::unique_ptr<Security> security);
  absl::StatusOr<bool> ReplaceSharedCache(const ParsedOptions& wanted);
  bool Set(absl::string_view option, const ServerOptions& options);
  MetricsSnapshot Snapshot() const;
  v1::ServerStatus Status(std::optional<double> since_seconds);
  void RememberStatus();
  absl::Status StartHttp();
  PortSharing sharing() const;

  const ServerOptions options_;  // of the start
  Mutex in_force_mutex_;
  std::vector<OptionText> in_force_ ABSL_GUARDED_BY(in_force_mutex_);
  double lame_duck_seconds_;
  double grace_seconds_;
  Metrics metrics_;
  StatusHistory history_;
  Reports reports_;
  HandshakeFailures handshakes_;
  CurrentProxies proxies_;
  std::unique_ptr<SpanExporter> spans_;  // null: no call is traced
  std::unique_ptr<CallTracer> tracer_;   // likewise
  UnsafeLog unsafe_;                     // the security's threads use it until they end
  std::unique_ptr<Security> security_;
  CacheTiers tiers_;
  AnswerCache cache_;
  std::atomic<bool> ready_{false};
  std::atomic<bool> draining_{false};  // or a lame duck, or asked to drain by an operator
  Engine engine_;
  ConnectionAccounts accounts_;
  Admission admission_;
  Admission operator_admission_;
  Admission open_admission_;  // of what needs no token
  Timers timers_;
  DelayedRefusals refusals_{timers_, DelayedRefusals::Limits()};
  SchedulerService service_;
  std::unique_ptr<OperatorService> operator_service_;  // null: it is not served
  HealthService health_service_;
  ReflectionService reflection_service_;
  UnknownMethods unknown_methods_;
  std::unique_ptr<HttpPort> http_;
  std::unique_ptr<grpc::Server> grpc_;  // its calls use all of the above but `http_`
  std::unique_ptr<Listener> listener_;  // hands connections to it; null while draining
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_SERVER_H_
