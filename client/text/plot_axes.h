// Ranges and ticks of a plot's axes. Pure, thread-safe.
#ifndef STOWAGE_CLIENT_TEXT_PLOT_AXES_H_
#define STOWAGE_CLIENT_TEXT_PLOT_AXES_H_

#include "client/text/plot_data.h"
#include "client/text/ticks.h"

namespace stowage {

// Maps the values from `low` to `high` to pixels, linearly.
struct Axis {
  double low = 0;
  double high = 1;
  double from = 0;  // pixel of `low`
  double to = 1;    // pixel of `high`
  Ticks ticks;

  double At(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

// Whether any point of the line has a y value.
bool HasValues(const PlotLine& line);

// The x axis of all panels, `width` pixels: the range of the values and a margin for the markers.
Axis HorizontalAxis(const Plot& plot, double width);

// The y axis of one panel, `height` pixels: from a tick at or below Plot::y_base to one at or above
// the panel's ceiling (Plot::y_most).
Axis VerticalAxis(const Plot& plot, const PlotPanel& panel, double height);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TEXT_PLOT_AXES_H_
