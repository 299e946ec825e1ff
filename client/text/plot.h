// Line plots as SVG: panels side by side, in each one line with markers per algorithm, and one
// legend for all. Pure and deterministic: equal plots give equal bytes.
#ifndef STOWAGE_CLIENT_TEXT_PLOT_H_
#define STOWAGE_CLIENT_TEXT_PLOT_H_

#include <string>

#include "client/text/plot_data.h"

namespace stowage {

// One SVG document. Lines differ by colour and marker. Earlier names are drawn thicker and below
// later ones, so that coinciding lines are all visible. The markers' tooltips show the values.
std::string ToSvg(const Plot& plot);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TEXT_PLOT_H_
