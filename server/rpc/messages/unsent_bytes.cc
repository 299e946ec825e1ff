#include "server/rpc/messages/unsent_bytes.h"

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "server/events/rejection.h"
#include "solver/base/mutex.h"

namespace stowage {
namespace {

// Never destroyed: calls may end late.
struct Totals {
  Mutex mutex;
  int64_t all ABSL_GUARDED_BY(mutex) = 0;
  absl::flat_hash_map<std::string, int64_t> of_clients ABSL_GUARDED_BY(mutex);
};

Totals& AllTotals() {
  static auto* const totals = new Totals;
  return *totals;
}

absl::Status TooMuchWaits(int64_t max_bytes) {
  return Rejected("unread",
                  absl::StrCat("more than ", max_bytes >> 20,
                               " MiB of answers wait to be read; read yours, try again"),
                  /*retry_after_seconds=*/1);
}

}  // namespace

absl::Status UnsentBytes::Take(int64_t bytes, const std::string& client) {
  if (bytes == 0) return absl::OkStatus();
  const int64_t max_of_all = bytes <= kSmallBytes ? kMaxBytes : kMaxBytes / 2;
  constexpr int64_t kMaxOfClient = kMaxBytes / 4;
  Totals& totals = AllTotals();
  MutexLock lock(totals.mutex);
  if (totals.all + bytes > max_of_all) return TooMuchWaits(max_of_all);
  if (bytes > kMaxOfClient) return TooMuchWaits(kMaxOfClient);
  int64_t& of_client = totals.of_clients[client];  // a new one is not left at 0
  if (of_client + bytes > kMaxOfClient) return TooMuchWaits(kMaxOfClient);
  of_client += bytes;
  totals.all += bytes;
  client_ = client;
  bytes_ += bytes;
  return absl::OkStatus();
}

UnsentBytes::~UnsentBytes() {
  if (bytes_ == 0) return;
  Totals& totals = AllTotals();
  MutexLock lock(totals.mutex);
  totals.all -= bytes_;
  const auto of_client = totals.of_clients.find(client_);
  of_client->second -= bytes_;
  if (of_client->second == 0) totals.of_clients.erase(of_client);
}

}  // namespace stowage
