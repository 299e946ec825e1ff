#include "client/text/ticks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_format.h"

namespace stowage {

// Tries the steps 1, 2, 5, 10, … times a power of ten, from one too fine upwards, and takes the
// first with at most `most` multiples in the range.
Ticks RoundTicks(double low, double high, int most) {
  constexpr std::array<double, 3> kMantissas = {1, 2, 5};
  int power = static_cast<int>(std::floor(std::log10((high - low) / most))) - 1;
  for (size_t i = 0;; ++i) {
    if (i > 0 && i % kMantissas.size() == 0) ++power;
    const double mantissa = kMantissas[i % kMantissas.size()];
    const double step = mantissa * std::pow(10, power);
    const double first = std::ceil(low / step);
    const double last = std::floor(high / step);
    if (last - first + 1 > most) continue;
    Ticks ticks{step, {}, {}};
    const int decimals = std::max(0, -power);
    for (int k = 0; k <= static_cast<int>(last - first); ++k) {
      const double n = first + k;
      // 3 / 10 is the double nearest to 0.3, and 3 * 0.1 is not.
      const double value = power < 0 ? n * mantissa / std::pow(10, -power) : n * step;
      ticks.values.push_back(n == 0 ? 0 : value);  // -0 would show its sign
      ticks.labels.push_back(absl::StrFormat("%.*f", decimals, ticks.values.back()));
    }
    return ticks;
  }
}

}  // namespace stowage
