#include "server/engine/limits/connection_accounts.h"

namespace stowage {

CallTotals ConnectionAccount::Totals() const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {.begun = begun_.load(kRelaxed),
          .ended = ended_.load(kRelaxed),
          .abandoned = abandoned_.load(kRelaxed),
          .request_bytes = request_bytes_.load(kRelaxed),
          .answer_bytes = answer_bytes_.load(kRelaxed),
          .ended_answer_bytes = ended_answer_bytes_.load(kRelaxed)};
}

std::shared_ptr<ConnectionAccount> ConnectionAccounts::Open(const std::string& peer) {
  auto account = std::make_shared<ConnectionAccount>();
  MutexLock lock(mutex_);
  accounts_[peer] = account;
  return account;
}

void ConnectionAccounts::Close(const std::string& peer, const ConnectionAccount& account) {
  MutexLock lock(mutex_);
  const auto found = accounts_.find(peer);
  if (found != accounts_.end() && found->second.get() == &account) accounts_.erase(found);
}

std::shared_ptr<ConnectionAccount> ConnectionAccounts::Of(absl::string_view peer) const {
  MutexLock lock(mutex_);
  const auto found = accounts_.find(peer);
  return found != accounts_.end() ? found->second : nullptr;
}

}  // namespace stowage
