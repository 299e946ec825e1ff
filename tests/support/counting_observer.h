// An observer for tests of what may fail.
#ifndef STOWAGE_TESTS_SUPPORT_COUNTING_OBSERVER_H_
#define STOWAGE_TESTS_SUPPORT_COUNTING_OBSERVER_H_

#include <atomic>
#include <string>

#include "proto/service/execution_report.h"
#include "server/events/observer.h"

namespace stowage {

// Counts failures of the cache tiers.
class CountingObserver final : public Observer {
 public:
  void CallBegan(const std::string& /*method*/) override {}
  void CallEnded(const CallRecord& /*record*/) override {}
  void ExecutionReported(const ExecutionReport& /*report*/, const CallRecord& /*call*/) override {}
  void OperatorActed(const OperatorAction& /*action*/) override {}
  void StoreFailed(const absl::Status& /*status*/) override { ++failures; }
  void CredentialsReplaced(const std::string& /*which*/, const absl::Status& /*status*/) override {}

  std::atomic<int> failures{0};
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_COUNTING_OBSERVER_H_
