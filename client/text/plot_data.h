// What a line plot shows.
#ifndef STOWAGE_CLIENT_TEXT_PLOT_DATA_H_
#define STOWAGE_CLIENT_TEXT_PLOT_DATA_H_

#include <optional>
#include <string>
#include <vector>

namespace stowage {

struct PlotPoint {
  double x = 0;
  std::optional<double> y;  // nullopt: no value, the line has a gap here
};

struct PlotLine {
  std::string name;               // lines of one name look the same in all panels
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
  double y_base = 0;  // a reference value that every y axis includes
  // Upper end of the y axes; higher values are clipped. nullopt: y_base + 2 * (m - y_base), where m
  // is the median of the maxima of the panel's lines, so that a few bad lines do not flatten the
  // others; raised so far that every line has a point in the panel.
  std::optional<double> y_most;
  std::vector<PlotPanel> panels;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TEXT_PLOT_DATA_H_
