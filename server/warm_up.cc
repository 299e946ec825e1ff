#include "server/warm_up.h"

#include <utility>

#include "absl/status/statusor.h"

namespace stowage {

WarmUpResult WarmUp(AnswerSource& source, AnswerTarget& target, absl::FunctionRef<bool()> is_over) {
  WarmUpResult result;
  bool is_early = false;
  const absl::Status read = source.Visit([&](CachedAnswerPtr cached) {
    is_early = is_over();
    if (is_early) return false;
    if (cached == nullptr) return true;
    const absl::StatusOr<bool> is_new = target.PutIfAbsent(std::move(cached));
    result.status = is_new.status();
    is_early = !is_new.ok();
    if (is_early) return false;
    ++(*is_new ? result.copied : result.present);
    return true;
  });
  result.status.Update(read);
  result.is_whole = result.status.ok() && !is_early;
  return result;
}

}  // namespace stowage
