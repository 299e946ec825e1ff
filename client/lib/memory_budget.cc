#include "client/lib/memory_budget.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"

namespace stowage {

// M_low + floor((M_high - M_low) * percent / 100), in long double: a double holds integers up to
// 2^53 only.
absl::StatusOr<int64_t> ParseBudget(absl::string_view text, const Chain& chain) {
  absl::string_view number = text;
  if (!absl::ConsumeSuffix(&number, "%")) return ParseBytes(text);
  double percent = 0;
  if (!absl::SimpleAtod(number, &percent) || !(percent >= 0 && percent <= 1000)) {
    return absl::InvalidArgumentError(absl::StrCat("'", text,
                                                   "' is not a share of the range from the memory "
                                                   "floor to storing everything; write e.g. 40%"));
  }
  const int64_t low = FloorOfMemory(chain).bytes;
  const auto range = static_cast<long double>(StoreAllPeakBytes(chain) - low);
  constexpr auto kMax = static_cast<long double>(kMaxTotalBytes);
  return low + static_cast<int64_t>(std::min(std::floor(range * percent / 100), kMax));
}

}  // namespace stowage
