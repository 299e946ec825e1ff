#include "server/rpc/calls/equal_calls.h"

#include "solver/base/status_macros.h"

namespace stowage {

absl::StatusOr<SharedResponsePtr> EqualCalls::ResponseWith(
    const AnswerPtr& answer, const std::string& client,
    absl::FunctionRef<void(v1::SolveResponse*)> fill) {
  MutexLock lock(mutex_);
  if (answer_ != answer) {
    ASSIGN_OR_RETURN(response_, SharedResponse::Make(fill, client));
    answer_ = answer;
  }
  return response_;
}

std::optional<CallsInFlight::Found> CallsInFlight::Find(const Fingerprint& text) const {
  Entry entry;
  {
    MutexLock lock(table_->mutex);
    const auto place = table_->entries.find(text);
    if (place == table_->entries.end()) return std::nullopt;
    entry = place->second;
  }
  // Not under the lock, which the end of the last call takes.
  Found found = {entry.calls.lock(), entry.keyed.lock()};
  if (found.calls == nullptr || found.keyed == nullptr) return std::nullopt;
  return found;
}

// Calls that come together may all be read: the last one's is the entry, and the others end without
// one.
void CallsInFlight::Add(const Fingerprint& text, const EqualCallsPtr& calls,
                        const KeyedRequestPtr& keyed) {
  calls->forget_ = [table = table_, text] {
    MutexLock lock(table->mutex);
    const auto entry = table->entries.find(text);
    if (entry != table->entries.end() && entry->second.calls.expired()) {
      table->entries.erase(entry);
    }
  };
  MutexLock lock(table_->mutex);
  table_->entries[text] = {calls, keyed};
}

}  // namespace stowage
