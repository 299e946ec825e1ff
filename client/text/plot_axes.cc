#include "client/text/plot_axes.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace stowage {
namespace {

constexpr int kMaxTicks = 7;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void Add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

// Whether all values are equal up to rounding, which an axis must not magnify.
bool Flat(const Range& range) {
  return range.high - range.low <= 1e-9 * std::max(std::abs(range.low), std::abs(range.high));
}

// The y values of a line; empty when it has none.
Range HeightsOf(const PlotLine& line) {
  Range range;
  for (const PlotPoint& point : line.points) {
    if (point.y.has_value()) range.Add(*point.y);
  }
  return range;
}

// The y value above which lines leave the panel: see Plot::y_most.
double CeilingOf(const Plot& plot, const PlotPanel& panel) {
  if (plot.y_most.has_value()) return *plot.y_most;
  std::vector<double> highest;
  double in_sight = plot.y_base;  // the least ceiling that shows a point of every line
  for (const PlotLine& line : panel.lines) {
    const Range range = HeightsOf(line);
    if (range.empty()) continue;
    highest.push_back(range.high);
    in_sight = std::max(in_sight, range.low);
  }
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (highest.empty()) return kNone;
  std::sort(highest.begin(), highest.end());
  const double typical = highest[(highest.size() - 1) / 2];
  if (typical <= plot.y_base) return kNone;
  return std::max(in_sight, plot.y_base + 2 * (typical - plot.y_base));
}

}  // namespace

bool HasValues(const PlotLine& line) { return !HeightsOf(line).empty(); }

Axis HorizontalAxis(const Plot& plot, double width) {
  Range range;
  for (const PlotPanel& panel : plot.panels) {
    for (const PlotLine& line : panel.lines) {
      for (const PlotPoint& point : line.points) range.Add(point.x);
    }
  }
  if (range.empty()) range = {0, 1};
  if (Flat(range)) range = {range.low - 0.5, range.high + 0.5};
  const double margin = 0.03 * (range.high - range.low);
  // No ticks in the margins, where there are no values; a tick at the very end stays in spite of
  // rounding.
  constexpr double kRounding = 1e-9;
  return {range.low - margin, range.high + margin, 0, width,
          RoundTicks(range.low - kRounding * margin, range.high + kRounding * margin, kMaxTicks)};
}

Axis VerticalAxis(const Plot& plot, const PlotPanel& panel, double height) {
  const double ceiling = CeilingOf(plot, panel);
  Range range;
  range.Add(plot.y_base);
  for (const PlotLine& line : panel.lines) {
    const Range heights = HeightsOf(line);
    if (heights.empty()) continue;
    range.Add(std::min(heights.low, ceiling));
    range.Add(std::min(heights.high, ceiling));
  }
  if (Flat(range)) range.high += range.low == 0 ? 1 : 0.1 * std::abs(range.low);
  const double step = RoundTicks(range.low, range.high, kMaxTicks).step;
  // A value that equals a tick up to rounding needs no further one.
  constexpr double kRounding = 1e-6;
  const double low = std::floor(range.low / step + kRounding) * step;
  const double high = std::ceil(range.high / step - kRounding) * step;
  return {low, high, height, 0,
          RoundTicks(low - kRounding * step, high + kRounding * step, kMaxTicks + 2)};
}

}  // namespace stowage
