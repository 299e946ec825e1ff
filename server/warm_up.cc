#include "server/warm_up.h"

#include <utility>

namespace stowage {

WarmUpResult WarmUp(AnswerSource& source, CacheTier& target, absl::FunctionRef<bool()> is_over) {
  WarmUpResult result;
  bool is_early = false;
  const absl::Status read = source.Visit([&](CachedAnswerPtr cached) {
    is_early = is_over();
    if (is_early) return false;
    if (cached == nullptr) return true;
    result.status = target.Put(std::move(cached));
    is_early = !result.status.ok();
    if (is_early) return false;
    ++result.copied;
    return true;
  });
  result.status.Update(read);
  result.is_whole = result.status.ok() && !is_early;
  return result;
}

}  // namespace stowage
