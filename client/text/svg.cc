#include "client/text/svg.h"

#include <array>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace stowage {

std::string SvgEscaped(absl::string_view text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string SvgText(SvgPoint at, SvgAnchor anchor, absl::string_view attributes,
                    absl::string_view text) {
  constexpr std::array<const char*, 3> kAnchors = {"start", "middle", "end"};
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>%s</text>\n", at.x, at.y,
                         kAnchors[static_cast<size_t>(anchor)], attributes, SvgEscaped(text));
}

std::string SvgLine(SvgPoint from, SvgPoint to, absl::string_view attributes) {
  return absl::StrFormat("<path d=\"M%.1f %.1fL%.1f %.1f\" %s/>\n", from.x, from.y, to.x, to.y,
                         attributes);
}

// A cross and a plus are lines from the centre to each end and back, since they have no inside.
std::string SvgMarkerPath(SvgMarker marker, SvgPoint at, double radius) {
  const auto closed = [at](const std::vector<SvgPoint>& corners) {
    return absl::StrCat("M",
                        absl::StrJoin(corners, "L",
                                      [at](std::string* out, const SvgPoint& corner) {
                                        absl::StrAppendFormat(out, "%.1f %.1f", at.x + corner.x,
                                                              at.y + corner.y);
                                      }),
                        "Z");
  };
  const double r = radius;
  const double s = 0.9 * r;  // half the side of a square
  const double t = 1.2 * r;  // from the centre to the tip of a triangle or diamond
  switch (marker) {
    case SvgMarker::kCircle:
      return absl::StrFormat("M%.1f %.1fa%.1f %.1f 0 1 0 %.1f 0a%.1f %.1f 0 1 0 %.1f 0Z", at.x - r,
                             at.y, r, r, 2 * r, r, r, -2 * r);
    case SvgMarker::kSquare:
      return closed({{-s, -s}, {s, -s}, {s, s}, {-s, s}});
    case SvgMarker::kTriangle:
      return closed({{0, -t}, {t, s}, {-t, s}});
    case SvgMarker::kDiamond:
      return closed({{0, -t}, {t, 0}, {0, t}, {-t, 0}});
    case SvgMarker::kTriangleDown:
      return closed({{0, t}, {t, -s}, {-t, -s}});
    case SvgMarker::kCross:
      return closed({{-s, -s}, {0, 0}, {s, -s}, {0, 0}, {s, s}, {0, 0}, {-s, s}, {0, 0}});
    case SvgMarker::kPlus:
      return closed({{0, -t}, {0, 0}, {t, 0}, {0, 0}, {0, t}, {0, 0}, {-t, 0}, {0, 0}});
  }
  return "";
}

}  // namespace stowage
