#include "server/observe/client_metrics.h"

#include <algorithm>

#include "absl/status/status.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/registry.h"
#include "proto/service/origin.h"

namespace stowage {
namespace {

constexpr size_t kMaxRecent = 10'000;
constexpr const char* kOthers = "other";

bool IsRefused(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnauthenticated(status) ||
         absl::IsInvalidArgument(status);
}

int64_t CallsOf(const std::string& client,
                const absl::flat_hash_map<std::string, int64_t>& recent) {
  const auto found = recent.find(client);
  return found != recent.end() ? found->second : 0;
}

}  // namespace

// A solve counts for the client whose request was solved, not for those that joined it.
void ClientMetrics::Add(const CallRecord& record, Totals* totals) {
  ++totals->calls;
  if (IsRefused(record.status)) ++totals->refused;
  if (record.answer != nullptr && record.answer->origin.source == Origin::Source::kSolved) {
    totals->solve_seconds += record.answer->origin.solve_seconds;
  }
}

void ClientMetrics::CallEnded(const CallRecord& record) {
  MutexLock lock(mutex_);
  if (recent_.size() < kMaxRecent || recent_.contains(record.client)) ++recent_[record.client];
  auto labelled = labelled_.find(record.client);
  if (labelled == labelled_.end() && labelled_.size() < max_labels_) {
    labelled = labelled_.emplace(record.client, Totals()).first;
  }
  Add(record, labelled != labelled_.end() ? &labelled->second : &others_);
}

// Gives the label of the quietest client to the busiest one without, as long as that had twice as
// many calls: labels that change often would be worth little.
void ClientMetrics::ChooseLabels() {
  std::vector<std::pair<int64_t, std::string>> busiest;
  for (const auto& [client, count] : recent_) {
    if (labelled_.count(client) == 0) busiest.emplace_back(count, client);
  }
  std::sort(busiest.rbegin(), busiest.rend());
  for (const auto& [count, client] : busiest) {
    auto quietest = labelled_.begin();
    for (auto each = labelled_.begin(); each != labelled_.end(); ++each) {
      if (CallsOf(each->first, recent_) < CallsOf(quietest->first, recent_)) quietest = each;
    }
    if (quietest == labelled_.end() || count <= 2 * CallsOf(quietest->first, recent_)) break;
    labelled_.erase(quietest);
    labelled_.emplace(client, Totals());
  }
  recent_.clear();
}

std::vector<prometheus::MetricFamily> ClientMetrics::Collect(Clock::time_point now) {
  prometheus::Registry registry;
  const auto add = [&registry](const char* name, const char* help) -> auto& {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  };
  auto& calls = add("stowage_client_calls_total",
                    "Ended calls of each of the busiest clients, and of all others together.");
  auto& refused = add("stowage_client_refused_total",
                      "Calls with RESOURCE_EXHAUSTED, UNAUTHENTICATED or INVALID_ARGUMENT.");
  auto& seconds = add("stowage_client_solve_seconds_total",
                      "Time that solver threads spent on a client's requests, in seconds.");
  const auto add_client = [&](const std::string& client, const Totals& totals) {
    const prometheus::Labels labels = {{"client", client}};
    calls.Add(labels).Increment(totals.calls);
    refused.Add(labels).Increment(totals.refused);
    seconds.Add(labels).Increment(totals.solve_seconds);
  };
  MutexLock lock(mutex_);
  if (now >= chosen_at_ + std::chrono::minutes(1)) {
    ChooseLabels();
    chosen_at_ = now;
  }
  for (const auto& [client, totals] : labelled_) add_client(client, totals);
  add_client(kOthers, others_);
  return registry.Collect();
}

}  // namespace stowage
