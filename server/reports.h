// Reports what happens in the server to the log and the metrics.
#ifndef STOWAGE_SERVER_REPORTS_H_
#define STOWAGE_SERVER_REPORTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "proto/service/execution_report.h"
#include "server/events/observer.h"
#include "server/observe/log.h"
#include "server/observe/metrics.h"

namespace stowage {

// Thread-safe.
class Reports final : public Observer, public ConnectionObserver {
 public:
  // Borrows the metrics. `on_new_files` is called after certificates or tokens have been replaced.
  Reports(const LogObserver::Options& log, Metrics& metrics, std::function<void()> on_new_files)
      : log_(log), metrics_(metrics), on_new_files_(std::move(on_new_files)) {}

  int64_t suppressed_lines() const { return log_.suppressed(); }
  void SetLog(const LogObserver::Options& log) { log_.Set(log); }

  void CallBegan(const std::string& method) override { metrics_.CallBegan(method); }
  void CallEnded(const CallRecord& record) override {
    log_.CallEnded(record);
    metrics_.CallEnded(record);
  }
  void ExecutionReported(const ExecutionReport& report, const CallRecord& call) override {
    log_.ExecutionReported(report, call);
    metrics_.ExecutionReported(report, call);
  }
  void OperatorActed(const OperatorAction& action) override {
    log_.OperatorActed(action);
    metrics_.OperatorActed(action);
  }
  void StoreFailed(const absl::Status& status) override {
    log_.StoreFailed(status);
    metrics_.StoreFailed(status);
  }
  void CredentialsReplaced(const std::string& which, const absl::Status& status) override {
    log_.CredentialsReplaced(which, status);
    metrics_.CredentialsReplaced(which, status);
    on_new_files_();
  }
  void ConnectionAccepted(const std::string& peer) override {
    log_.ConnectionAccepted(peer);
    metrics_.ConnectionAccepted(peer);
  }
  void ConnectionRefused(const RefusedConnection& connection) override {
    log_.ConnectionRefused(connection);
    metrics_.ConnectionRefused(connection);
  }
  void ConnectionCutOff(const CutConnection& connection) override {
    log_.ConnectionCutOff(connection);
    metrics_.ConnectionCutOff(connection);
  }
  void HandshakeFailed(const FailedHandshake& handshake) override {
    log_.HandshakeFailed(handshake);
    metrics_.HandshakeFailed(handshake);
  }
  void ReaderRefused(const RefusedReader& reader) override {
    log_.ReaderRefused(reader);
    metrics_.ReaderRefused(reader);
  }

 private:
  LogObserver log_;
  Metrics& metrics_;
  const std::function<void()> on_new_files_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_REPORTS_H_
