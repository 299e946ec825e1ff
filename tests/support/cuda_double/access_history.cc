// Two accesses race if neither's clock has passed the other's moment. Mostly the earlier call is
// the earlier access, but a host function says what it accesses only when it runs.
#include "tests/support/cuda_double/access_history.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace stowage::cuda_double {
namespace {

bool Overlap(const Range& a, const Range& b) { return a.begin() < b.end() && b.begin() < a.end(); }

bool Contains(const Range& outer, const Range& inner) {
  return outer.begin() <= inner.begin() && inner.end() <= outer.end();
}

std::string Described(const Range& range, const Accessor& by) {
  const std::string actor =
      by.moment.actor == kHost ? "host code" : absl::StrCat("stream ", by.moment.actor);
  return absl::StrCat(range.kind == AccessKind::kWrite ? "write" : "read", " of ", range.bytes,
                      " bytes at 0x", absl::Hex(range.begin()), " by ", by.what, " of ", actor,
                      "\n", by.site.ToString());
}

bool AreOrdered(const Accessor& a, const Accessor& b) {
  return a.clock.HasPassed(b.moment) || b.clock.HasPassed(a.moment);
}

}  // namespace

std::string AccessHistory::Add(const Range& range,
                               const std::shared_ptr<const Accessor>& accessor) {
  const auto races = [&](const Access& other) {
    const bool writes = other.range.kind == AccessKind::kWrite || range.kind == AccessKind::kWrite;
    return writes && Overlap(other.range, range) && !AreOrdered(*other.by, *accessor);
  };
  const auto other = std::find_if(accesses_.begin(), accesses_.end(), races);
  std::string race;
  if (other != accesses_.end()) {
    race = absl::StrCat(Described(range, *accessor), "  is not ordered after the ",
                        Described(other->range, *other->by));
  }
  // What is ordered after this access is ordered after those before it, too. A read must not
  // replace a write, with which later reads may race.
  const auto is_superfluous = [&](const Access& earlier) {
    return accessor->clock.HasPassed(earlier.by->moment) && Contains(range, earlier.range) &&
           (range.kind == AccessKind::kWrite || earlier.range.kind == AccessKind::kRead);
  };
  accesses_.erase(std::remove_if(accesses_.begin(), accesses_.end(), is_superfluous),
                  accesses_.end());
  accesses_.push_back({range, accessor});
  return race;
}

}  // namespace stowage::cuda_double
