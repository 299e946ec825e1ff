// Line plots as SVG, the way papers show them: panels side by side, one line with markers for each
// algorithm, one legend for all. Pure: equal plots are equal bytes.
#ifndef STOWAGE_CLIENT_CLI_EXPERIMENT_PLOT_H_
#define STOWAGE_CLIENT_CLI_EXPERIMENT_PLOT_H_

#include <optional>
#include <string>
#include <vector>

namespace stowage {

struct PlotPoint {
  double x = 0;
  std::optional<double> y;  // nullopt: there is none, and the line has a gap
};

struct PlotLine {
  std::string name;               // of equal name in several panels: of equal looks
  std::vector<PlotPoint> points;  // in the order in which they are connected
};

struct PlotPanel {
  std::string title;
  std::vector<PlotLine> lines;
};

// Panels share the x axis, each has its own y axis. No value is infinite or NaN.
struct Plot {
  std::string title;
  std::string x_label;
  std::string y_label;
  double y_base = 0;  // every y axis reaches it, for it means something
  // Lines that are above leave their panel. nullopt: twice as far above y_base as the line in the
  // middle of a panel ever is, so that a few hopeless ones do not flatten all others; but as far as
  // it takes to see a point of each.
  std::optional<double> y_most;
  std::vector<PlotPanel> panels;
};

// One SVG document. Names are told apart by colour and by marker, and earlier ones are drawn
// thicker and below, so that lines that coincide can all be seen. The markers' tooltips have the
// values.
std::string ToSvg(const Plot& plot);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_EXPERIMENT_PLOT_H_
