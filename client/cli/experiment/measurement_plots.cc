#include "client/cli/experiment/measurement_plots.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stowage {
namespace {

constexpr double kGigabyte = 1e9;

double GigabytesPerSecond(const Measurement& row) {
  return row.platform.offload_bytes_per_second / kGigabyte;
}

// The axes of a kind of plot, and the quantity that is constant in a panel.
struct Shape {
  const char* title;
  const char* x_label;
  const char* y_label;
  double (*x)(const Measurement& row);
  std::optional<double> (*y)(const Measurement& row);
  std::string (*fixed)(const Measurement& row);
};

std::string FixedBandwidth(const Measurement& row) {
  return absl::StrFormat("%g GB/s", GigabytesPerSecond(row));
}
std::string FixedMemory(const Measurement& row) { return absl::StrFormat("α = %g", row.alpha); }
std::optional<double> Slowdown(const Measurement& row) { return row.Slowdown(); }

Shape ShapeOf(PlotKind kind) {
  constexpr const char* kSlowdown = "makespan / sequential time";
  switch (kind) {
    case PlotKind::kSlowdownByMemory:
      return {"Overhead by memory",
              "memory ratio α",
              kSlowdown,
              [](const Measurement& row) { return row.alpha; },
              Slowdown,
              FixedBandwidth};
    case PlotKind::kSlowdownByBandwidth:
      return {"Overhead by bandwidth", "bandwidth (GB/s)", kSlowdown,
              GigabytesPerSecond,      Slowdown,           FixedMemory};
    case PlotKind::kRatioByMemory:
      return {"Ratio to the lower bound by memory",
              "memory limit (%)",
              "makespan / lower bound",
              [](const Measurement& row) { return row.alpha * 100; },
              [](const Measurement& row) { return row.RatioToBound(); },
              FixedBandwidth};
  }
  return {};
}

// The panel or line of that name; appends it where there is none.
PlotPanel& PanelOf(std::vector<PlotPanel>& panels, const std::string& title) {
  for (PlotPanel& panel : panels) {
    if (panel.title == title) return panel;
  }
  return panels.emplace_back(PlotPanel{title, {}});
}
PlotLine& LineOf(std::vector<PlotLine>& lines, const std::string& name) {
  for (PlotLine& line : lines) {
    if (line.name == name) return line;
  }
  return lines.emplace_back(PlotLine{name, {}});
}

}  // namespace

// A panel for each network and each value of the quantity that is constant in a panel.
Plot PlotOf(PlotKind kind, const std::vector<Measurement>& measurements,
            std::optional<double> y_most) {
  const Shape shape = ShapeOf(kind);
  std::set<std::string> fixed;
  for (const Measurement& row : measurements) fixed.insert(shape.fixed(row));
  const bool one = fixed.size() == 1;  // then it is in the title of the plot only
  Plot plot{.title = one ? absl::StrCat(shape.title, ", ", *fixed.begin()) : shape.title,
            .x_label = shape.x_label,
            .y_label = shape.y_label,
            .y_base = 1,  // no time lost
            .y_most = y_most,
            .panels = {}};
  for (const Measurement& row : measurements) {
    PlotPanel& panel =
        PanelOf(plot.panels, one ? row.network : absl::StrCat(row.network, ", ", shape.fixed(row)));
    LineOf(panel.lines, row.solver).points.push_back({shape.x(row), shape.y(row)});
  }
  return plot;
}

}  // namespace stowage
