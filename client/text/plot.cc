#include "client/text/plot.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "client/text/plot_axes.h"
#include "client/text/svg.h"
#include "client/text/table.h"
#include "solver/base/quote.h"

namespace stowage {
namespace {

// Pixels. A cell holds a panel and its labels; the frame is the rectangle of the axes.
constexpr double kCellWidth = 370;
constexpr double kCellHeight = 262;
constexpr double kFrameLeft = 58;
constexpr double kFrameTop = 26;
constexpr double kFrameWidth = 300;
constexpr double kFrameHeight = 190;
constexpr double kEdge = 12;
constexpr double kTitleHeight = 34;
constexpr double kLegendRowHeight = 22;
constexpr double kMinWidth = 560;        // fits the title
constexpr double kCharacterWidth = 7;    // at least that of a text of 12 pixels
constexpr size_t kTitleCharacters = 44;  // of a panel

// A palette for any colour vision, dark enough for white paper: Okabe and Ito's, with brown for
// their yellow. Eight colours and seven markers make 56 different pairs.
constexpr std::array<const char*, 8> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                 "#000000", "#E69F00", "#56B4E9", "#8C564B"};

// Colour, marker and sizes, the same for all lines of one name.
struct Style {
  const char* colour = nullptr;
  SvgMarker marker = SvgMarker::kCircle;
  double width = 0;
  double radius = 0;
};

// Distinct for 56 names: the numbers of colours and markers have no common factor. Widths fall with
// the index, since later lines are drawn over earlier ones.
Style StyleOf(size_t index, size_t count) {
  // 1 for the first name, 0 for the last.
  const double thick =
      count > 1 ? 1 - static_cast<double>(index) / static_cast<double>(count - 1) : 0.5;
  return {kColours[index % kColours.size()], static_cast<SvgMarker>(index % size_t{kSvgMarkers}),
          1.4 + 2.0 * thick, 3.2 + 2.0 * thick};
}

// Crosses and pluses have no inside and are drawn by their stroke; the others have a white edge.
std::string DrawnMarker(const Style& style, SvgPoint at, absl::string_view tooltip) {
  const bool open = style.marker == SvgMarker::kCross || style.marker == SvgMarker::kPlus;
  const std::string title =
      tooltip.empty() ? "" : absl::StrCat("<title>", SvgEscaped(tooltip), "</title>");
  return absl::StrFormat(
      "<path d=\"%s\" fill=\"%s\" stroke=\"%s\" stroke-width=\"%.1f\">%s</path>\n",
      SvgMarkerPath(style.marker, at, style.radius), style.colour, open ? style.colour : "#fff",
      open ? style.width + 0.4 : 0.6, title);
}

// The names of all lines, in order of appearance.
std::vector<std::string> NamesOf(const Plot& plot) {
  std::vector<std::string> names;
  for (const PlotPanel& panel : plot.panels) {
    for (const PlotLine& line : panel.lines) {
      if (std::find(names.begin(), names.end(), line.name) == names.end())
        names.push_back(line.name);
    }
  }
  return names;
}

// Grid lines and tick labels, and a darker line at `y_base` where that is not the x axis.
std::string Grid(const Axis& x, const Axis& y, double y_base) {
  std::string svg;
  for (size_t i = 0; i < x.ticks.values.size(); ++i) {
    const double at = x.At(x.ticks.values[i]);
    absl::StrAppend(&svg, SvgLine({at, 0}, {at, kFrameHeight}, "class=\"grid\""),
                    SvgText({at, kFrameHeight + 15}, SvgAnchor::kMiddle, "", x.ticks.labels[i]));
  }
  for (size_t i = 0; i < y.ticks.values.size(); ++i) {
    const double at = y.At(y.ticks.values[i]);
    absl::StrAppend(&svg, SvgLine({0, at}, {kFrameWidth, at}, "class=\"grid\""),
                    SvgText({-6, at + 4}, SvgAnchor::kEnd, "", y.ticks.labels[i]));
  }
  if (y.low < y_base) {
    const double at = y.At(y_base);
    svg += SvgLine({0, at}, {kFrameWidth, at}, "stroke=\"#888\"");
  }
  return svg;
}

// A line with gaps where it has no value, clipped to the frame.
std::string DrawnLine(const PlotLine& line, const Style& style, const Axis& x, const Axis& y) {
  std::string data;
  bool connected = false;
  for (const PlotPoint& point : line.points) {
    if (point.y.has_value()) {
      absl::StrAppendFormat(&data, "%s%.1f %.1f", connected ? "L" : "M", x.At(point.x),
                            y.At(*point.y));
    }
    connected = point.y.has_value();
  }
  return absl::StrFormat(
      "<path d=\"%s\" clip-path=\"url(#frame)\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" "
      "stroke-linejoin=\"round\"/>\n",
      data, style.colour, style.width);
}

std::string DrawnMarkers(const PlotLine& line, const Style& style, const Axis& x, const Axis& y) {
  // Includes values that exceed the last tick by rounding only.
  const double top = y.high + 1e-3 * (y.high - y.low);
  std::string svg;
  for (const PlotPoint& point : line.points) {
    if (!point.y.has_value() || *point.y > top) continue;
    absl::StrAppend(&svg,
                    DrawnMarker(style, {x.At(point.x), y.At(*point.y)},
                                absl::StrFormat("%s: %g, %.4g", line.name, point.x, *point.y)));
  }
  return svg;
}

size_t IndexOf(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

// One panel, with the upper left corner of its frame at the origin. Lines are drawn in the order of
// `names`, so that thin ones lie on thick ones.
std::string DrawnPanel(const Plot& plot, const PlotPanel& panel, const Axis& x,
                       const std::vector<std::string>& names) {
  const Axis y = VerticalAxis(plot, panel, kFrameHeight);
  std::string svg = SvgText({kFrameWidth / 2, -9}, SvgAnchor::kMiddle, " font-weight=\"bold\"",
                            Shortened(panel.title, kTitleCharacters));
  absl::StrAppend(&svg, Grid(x, y, plot.y_base));
  std::vector<const PlotLine*> lines;
  for (const PlotLine& line : panel.lines) {
    if (HasValues(line)) lines.push_back(&line);
  }
  if (lines.empty()) {
    svg += SvgText({kFrameWidth / 2, kFrameHeight / 2}, SvgAnchor::kMiddle, "", "no values");
  }
  std::stable_sort(lines.begin(), lines.end(), [&names](const PlotLine* a, const PlotLine* b) {
    return IndexOf(names, a->name) < IndexOf(names, b->name);
  });
  for (const PlotLine* line : lines) {
    const Style style = StyleOf(IndexOf(names, line->name), names.size());
    absl::StrAppend(&svg, DrawnLine(*line, style, x, y), DrawnMarkers(*line, style, x, y));
  }
  absl::StrAppendFormat(&svg, "<rect width=\"%g\" height=\"%g\" fill=\"none\" stroke=\"#444\"/>\n",
                        kFrameWidth, kFrameHeight);
  return svg;
}

// The x label below the last panel of a column, the y label left of the first panel of a row.
std::string AxisLabels(const Plot& plot, size_t index, size_t columns) {
  std::string svg;
  if (index + columns >= plot.panels.size()) {
    svg += SvgText({kFrameWidth / 2, kFrameHeight + 33}, SvgAnchor::kMiddle, "", plot.x_label);
  }
  if (index % columns == 0) {
    const SvgPoint at{-44, kFrameHeight / 2};
    svg +=
        SvgText(at, SvgAnchor::kMiddle,
                absl::StrFormat(" transform=\"rotate(-90 %.1f %.1f)\"", at.x, at.y), plot.y_label);
  }
  return svg;
}

struct Legend {
  std::string svg;
  double height = 0;
};

// The names from left to right, in rows of at most `width`.
Legend DrawnLegend(const std::vector<std::string>& names, double width) {
  constexpr double kSample = 28;  // of a line, before its name
  Legend legend;
  SvgPoint at{kFrameLeft, kTitleHeight + kLegendRowHeight / 2};
  for (size_t i = 0; i < names.size(); ++i) {
    const double entry =
        kSample + 26 + kCharacterWidth * static_cast<double>(DisplayWidth(names[i]));
    if (at.x > kFrameLeft && at.x + entry > width - kEdge) {
      at = {kFrameLeft, at.y + kLegendRowHeight};
    }
    const Style style = StyleOf(i, names.size());
    absl::StrAppend(
        &legend.svg,
        SvgLine(at, {at.x + kSample, at.y},
                absl::StrFormat("stroke=\"%s\" stroke-width=\"%.1f\"", style.colour, style.width)),
        DrawnMarker(style, {at.x + kSample / 2, at.y}, ""),
        SvgText({at.x + kSample + 6, at.y + 4}, SvgAnchor::kStart, "", names[i]));
    at.x += entry;
  }
  legend.height = names.empty() ? 0 : at.y + kLegendRowHeight / 2 - kTitleHeight;
  return legend;
}

// Panels per row: one row of up to three, otherwise nearly square, at most four.
size_t ColumnsFor(size_t panels) {
  if (panels <= 3) return std::max<size_t>(panels, 1);
  if (panels == 4) return 2;
  return panels <= 9 ? 3 : 4;
}

std::string Head(double width, double height) {
  // The clip path lies outside the frame by this, so that lines along the frame keep their width.
  constexpr double kThickness = 2;
  return absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" viewBox=\"0 0 %g %g\" "
      "font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"12\" "
      "fill=\"#222\">\n"
      "<style>.grid{stroke:#ddd;stroke-width:1}</style>\n"
      "<clipPath id=\"frame\"><rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\"/></clipPath>\n"
      "<rect width=\"%g\" height=\"%g\" fill=\"#fff\"/>\n",
      width, height, width, height, -kThickness, -kThickness, kFrameWidth + 2 * kThickness,
      kFrameHeight + 2 * kThickness, width, height);
}

}  // namespace

// From top to bottom: title, legend, rows of panels. All panels share the x axis and the styles by
// name.
std::string ToSvg(const Plot& plot) {
  const std::vector<std::string> names = NamesOf(plot);
  const size_t columns = ColumnsFor(plot.panels.size());
  const size_t rows = (plot.panels.size() + columns - 1) / columns;
  const double width = std::max(kMinWidth, static_cast<double>(columns) * kCellWidth + 2 * kEdge);
  const Legend legend = DrawnLegend(names, width);
  const double top = kTitleHeight + legend.height;
  std::string svg = Head(width, top + static_cast<double>(rows) * kCellHeight + kEdge);
  absl::StrAppend(&svg,
                  SvgText({width / 2, 22}, SvgAnchor::kMiddle,
                          " font-size=\"15\" font-weight=\"bold\"", plot.title),
                  legend.svg);
  const Axis x = HorizontalAxis(plot, kFrameWidth);
  for (size_t i = 0; i < plot.panels.size(); ++i) {
    const size_t row = i / columns;
    const size_t column = i % columns;
    absl::StrAppendFormat(&svg, "<g transform=\"translate(%g %g)\">\n",
                          kEdge + static_cast<double>(column) * kCellWidth + kFrameLeft,
                          top + static_cast<double>(row) * kCellHeight + kFrameTop);
    absl::StrAppend(&svg, DrawnPanel(plot, plot.panels[i], x, names), AxisLabels(plot, i, columns),
                    "</g>\n");
  }
  return svg + "</svg>\n";
}

}  // namespace stowage
