// Ticks of a plot's axis.
#ifndef STOWAGE_CLIENT_TEXT_TICKS_H_
#define STOWAGE_CLIENT_TEXT_TICKS_H_

#include <string>
#include <vector>

namespace stowage {

// The round numbers of an axis: multiples of `step`, which is 1, 2 or 5 times a power of ten.
struct Ticks {
  double step = 1;
  std::vector<double> values;       // ascending
  std::vector<std::string> labels;  // of the values, with the decimals of `step`
};

// The finest ticks within [low, high] that are at most `most`. Requires: low < high, both finite,
// most >= 2.
Ticks RoundTicks(double low, double high, int most);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TEXT_TICKS_H_
