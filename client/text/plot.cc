#include "client/text/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "client/text/table.h"
#include "client/text/ticks.h"
#include "solver/base/quote.h"

namespace stowage {
namespace {

// Pixels. A cell is a panel with its labels; the frame is what is inside its axes.
constexpr double kCellWidth = 370;
constexpr double kCellHeight = 262;
constexpr double kFrameLeft = 58;
constexpr double kFrameTop = 26;
constexpr double kFrameWidth = 300;
constexpr double kFrameHeight = 190;
constexpr double kEdge = 12;
constexpr double kTitleHeight = 34;
constexpr double kLegendRowHeight = 22;
constexpr double kLeastWidth = 560;      // the title needs it
constexpr double kCharacterWidth = 7;    // of text of 12 pixels, and some more
constexpr size_t kTitleCharacters = 44;  // of a panel
constexpr int kMostTicks = 7;

// Colours that people with any colour vision tell apart, dark enough for white paper (Okabe and
// Ito's, brown for their yellow). As many markers, but for one: the pairs repeat late.
constexpr std::array<const char*, 8> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                 "#000000", "#E69F00", "#56B4E9", "#8C564B"};
enum class Marker { kCircle, kSquare, kTriangle, kDiamond, kTriangleDown, kCross, kPlus };
constexpr size_t kMarkers = 7;

struct Place {
  double x = 0;
  double y = 0;
};

// How all lines of one name look.
struct Style {
  const char* colour = nullptr;
  Marker marker = Marker::kCircle;
  double width = 0;
  double radius = 0;
};

Style StyleOf(size_t index, size_t count) {
  // 1 for the first name, 0 for the last.
  const double thick =
      count > 1 ? 1 - static_cast<double>(index) / static_cast<double>(count - 1) : 0.5;
  return {kColours[index % kColours.size()], static_cast<Marker>(index % kMarkers),
          1.4 + 2.0 * thick, 3.2 + 2.0 * thick};
}

// A value on one axis and where it is drawn.
struct Axis {
  double low = 0;
  double high = 1;
  double from = 0;  // the pixel of `low`
  double to = 1;    // the pixel of `high`
  Ticks ticks;

  double At(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

enum class Anchor { kStart, kMiddle, kEnd };

std::string Text(Place at, Anchor anchor, absl::string_view more, absl::string_view text) {
  constexpr std::array<const char*, 3> kAnchors = {"start", "middle", "end"};
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>%s</text>\n", at.x, at.y,
                         kAnchors[static_cast<size_t>(anchor)], more, Escaped(text));
}

std::string Line(Place from, Place to, absl::string_view stroke) {
  return absl::StrFormat("<path d=\"M%.1f %.1fL%.1f %.1f\" %s/>\n", from.x, from.y, to.x, to.y,
                         stroke);
}

// The outline of a marker around `at`, as the data of an SVG path; markers look equally large.
std::string MarkerPath(Marker marker, Place at, double r) {
  const auto closed = [at](const std::vector<Place>& corners) {
    return absl::StrCat("M",
                        absl::StrJoin(corners, "L",
                                      [at](std::string* out, const Place& corner) {
                                        absl::StrAppendFormat(out, "%.1f %.1f", at.x + corner.x,
                                                              at.y + corner.y);
                                      }),
                        "Z");
  };
  const double s = 0.9 * r;
  const double t = 1.2 * r;
  switch (marker) {
    case Marker::kCircle:
      return absl::StrFormat("M%.1f %.1fa%.1f %.1f 0 1 0 %.1f 0a%.1f %.1f 0 1 0 %.1f 0Z", at.x - r,
                             at.y, r, r, 2 * r, r, r, -2 * r);
    case Marker::kSquare:
      return closed({{-s, -s}, {s, -s}, {s, s}, {-s, s}});
    case Marker::kTriangle:
      return closed({{0, -t}, {t, s}, {-t, s}});
    case Marker::kDiamond:
      return closed({{0, -t}, {t, 0}, {0, t}, {-t, 0}});
    case Marker::kTriangleDown:
      return closed({{0, t}, {t, -s}, {-t, -s}});
    case Marker::kCross:
      return closed({{-s, -s}, {0, 0}, {s, -s}, {0, 0}, {s, s}, {0, 0}, {-s, s}, {0, 0}});
    case Marker::kPlus:
      return closed({{0, -t}, {0, 0}, {t, 0}, {0, 0}, {0, t}, {0, 0}, {-t, 0}, {0, 0}});
  }
  return "";
}

// A marker; the two that have no inside are drawn by their stroke, the others edged in white.
std::string DrawnMarker(const Style& style, Place at, absl::string_view tooltip) {
  const bool open = style.marker == Marker::kCross || style.marker == Marker::kPlus;
  const std::string title =
      tooltip.empty() ? "" : absl::StrCat("<title>", Escaped(tooltip), "</title>");
  return absl::StrFormat(
      "<path d=\"%s\" fill=\"%s\" stroke=\"%s\" stroke-width=\"%.1f\">%s</path>\n",
      MarkerPath(style.marker, at, style.radius), style.colour, open ? style.colour : "#fff",
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

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void Add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

// Whether all values are one but for rounding: nobody wants to see that magnified.
bool Flat(const Range& range) {
  return range.high - range.low <= 1e-9 * std::max(std::abs(range.low), std::abs(range.high));
}

// The x axis of all panels: no wider than the values, but for the markers at its ends.
Axis HorizontalAxis(const Plot& plot) {
  Range range;
  for (const PlotPanel& panel : plot.panels) {
    for (const PlotLine& line : panel.lines) {
      for (const PlotPoint& point : line.points) range.Add(point.x);
    }
  }
  if (range.empty()) range = {0, 1};
  if (Flat(range)) range = {range.low - 0.5, range.high + 0.5};
  const double margin = 0.03 * (range.high - range.low);
  // Ticks outside the values would suggest some: margins have none, rounding loses none.
  constexpr double kRounding = 1e-9;
  return {range.low - margin, range.high + margin, 0, kFrameWidth,
          RoundTicks(range.low - kRounding * margin, range.high + kRounding * margin, kMostTicks)};
}

// The y values of a line; empty when it has none.
Range HeightsOf(const PlotLine& line) {
  Range range;
  for (const PlotPoint& point : line.points) {
    if (point.y.has_value()) range.Add(*point.y);
  }
  return range;
}

// Above which lines leave the panel: see Plot::y_most.
double CeilingOf(const Plot& plot, const PlotPanel& panel) {
  if (plot.y_most.has_value()) return *plot.y_most;
  std::vector<double> highest;
  double in_sight = plot.y_base;
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

// The y axis of one panel, which begins and ends at ticks.
Axis VerticalAxis(const Plot& plot, const PlotPanel& panel) {
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
  const double step = RoundTicks(range.low, range.high, kMostTicks).step;
  // A value that is a tick but for rounding needs no further tick.
  constexpr double kRounding = 1e-6;
  const double low = std::floor(range.low / step + kRounding) * step;
  const double high = std::ceil(range.high / step - kRounding) * step;
  return {low, high, kFrameHeight, 0,
          RoundTicks(low - kRounding * step, high + kRounding * step, kMostTicks + 2)};
}

// `y_base` stands out where it is not the axis itself.
std::string Grid(const Axis& x, const Axis& y, double y_base) {
  std::string svg;
  for (size_t i = 0; i < x.ticks.values.size(); ++i) {
    const double at = x.At(x.ticks.values[i]);
    absl::StrAppend(&svg, Line({at, 0}, {at, kFrameHeight}, "class=\"grid\""),
                    Text({at, kFrameHeight + 15}, Anchor::kMiddle, "", x.ticks.labels[i]));
  }
  for (size_t i = 0; i < y.ticks.values.size(); ++i) {
    const double at = y.At(y.ticks.values[i]);
    absl::StrAppend(&svg, Line({0, at}, {kFrameWidth, at}, "class=\"grid\""),
                    Text({-6, at + 4}, Anchor::kEnd, "", y.ticks.labels[i]));
  }
  if (y.low < y_base) {
    const double at = y.At(y_base);
    svg += Line({0, at}, {kFrameWidth, at}, "stroke=\"#888\"");
  }
  return svg;
}

// The line of one name, in pieces between its gaps, cut off at the frame.
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
  // With the values that are the last tick but for rounding.
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

// One panel, its frame's corner at the origin.
std::string DrawnPanel(const Plot& plot, const PlotPanel& panel, const Axis& x,
                       const std::vector<std::string>& names) {
  const Axis y = VerticalAxis(plot, panel);
  std::string svg = Text({kFrameWidth / 2, -9}, Anchor::kMiddle, " font-weight=\"bold\"",
                         Shortened(panel.title, kTitleCharacters));
  absl::StrAppend(&svg, Grid(x, y, plot.y_base));
  std::vector<const PlotLine*> lines;
  for (const PlotLine& line : panel.lines) {
    if (!HeightsOf(line).empty()) lines.push_back(&line);
  }
  if (lines.empty()) {
    svg += Text({kFrameWidth / 2, kFrameHeight / 2}, Anchor::kMiddle, "", "no values");
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

// The x label below the lowest panel of each column, the y label left of each row's first.
std::string AxisLabels(const Plot& plot, size_t index, size_t columns) {
  std::string svg;
  if (index + columns >= plot.panels.size()) {
    svg += Text({kFrameWidth / 2, kFrameHeight + 33}, Anchor::kMiddle, "", plot.x_label);
  }
  if (index % columns == 0) {
    const Place at{-44, kFrameHeight / 2};
    svg += Text(at, Anchor::kMiddle,
                absl::StrFormat(" transform=\"rotate(-90 %.1f %.1f)\"", at.x, at.y), plot.y_label);
  }
  return svg;
}

struct Legend {
  std::string svg;
  double height = 0;
};

// The names from left to right, in as many rows as the width takes.
Legend DrawnLegend(const std::vector<std::string>& names, double width) {
  constexpr double kSample = 28;  // of a line, before its name
  Legend legend;
  Place at{kFrameLeft, kTitleHeight + kLegendRowHeight / 2};
  for (size_t i = 0; i < names.size(); ++i) {
    const double entry =
        kSample + 26 + kCharacterWidth * static_cast<double>(DisplayWidth(names[i]));
    if (at.x > kFrameLeft && at.x + entry > width - kEdge) {
      at = {kFrameLeft, at.y + kLegendRowHeight};
    }
    const Style style = StyleOf(i, names.size());
    absl::StrAppend(
        &legend.svg,
        Line(at, {at.x + kSample, at.y},
             absl::StrFormat("stroke=\"%s\" stroke-width=\"%.1f\"", style.colour, style.width)),
        DrawnMarker(style, {at.x + kSample / 2, at.y}, ""),
        Text({at.x + kSample + 6, at.y + 4}, Anchor::kStart, "", names[i]));
    at.x += entry;
  }
  legend.height = names.empty() ? 0 : at.y + kLegendRowHeight / 2 - kTitleHeight;
  return legend;
}

size_t ColumnsFor(size_t panels) {
  if (panels <= 3) return std::max<size_t>(panels, 1);
  if (panels == 4) return 2;
  return panels <= 9 ? 3 : 4;
}

std::string Head(double width, double height) {
  // Lines may be as thick at the frame as elsewhere.
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

std::string ToSvg(const Plot& plot) {
  const std::vector<std::string> names = NamesOf(plot);
  const size_t columns = ColumnsFor(plot.panels.size());
  const size_t rows = (plot.panels.size() + columns - 1) / columns;
  const double width = std::max(kLeastWidth, static_cast<double>(columns) * kCellWidth + 2 * kEdge);
  const Legend legend = DrawnLegend(names, width);
  const double top = kTitleHeight + legend.height;
  std::string svg = Head(width, top + static_cast<double>(rows) * kCellHeight + kEdge);
  absl::StrAppend(
      &svg,
      Text({width / 2, 22}, Anchor::kMiddle, " font-size=\"15\" font-weight=\"bold\"", plot.title),
      legend.svg);
  const Axis x = HorizontalAxis(plot);
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
