// Elements of an SVG document: text, lines and the markers of a plot. Coordinates are pixels, with
// y downwards. Pure, thread-safe.
#ifndef STOWAGE_CLIENT_TEXT_SVG_H_
#define STOWAGE_CLIENT_TEXT_SVG_H_

#include <string>

#include "absl/strings/string_view.h"

namespace stowage {

struct SvgPoint {
  double x = 0;
  double y = 0;
};

// `text` with the characters that XML reserves as entities.
std::string SvgEscaped(absl::string_view text);

enum class SvgAnchor { kStart, kMiddle, kEnd };  // the part of a text that is at its point

// Escapes `text`. `attributes` are further ones of the element, each with a space before it.
std::string SvgText(SvgPoint at, SvgAnchor anchor, absl::string_view attributes,
                    absl::string_view text);

std::string SvgLine(SvgPoint from, SvgPoint to, absl::string_view attributes);

enum class SvgMarker { kCircle, kSquare, kTriangle, kDiamond, kTriangleDown, kCross, kPlus };
inline constexpr int kSvgMarkers = 7;

// Path data of a marker's outline around `at`. `radius` is the circle's; the sizes of the others
// make all markers look equally large.
std::string SvgMarkerPath(SvgMarker marker, SvgPoint at, double radius);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TEXT_SVG_H_
