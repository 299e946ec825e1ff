// Plots of the rows of `stowage experiment`, as in the papers.
#ifndef STOWAGE_CLIENT_CLI_EXPERIMENT_MEASUREMENT_PLOTS_H_
#define STOWAGE_CLIENT_CLI_EXPERIMENT_MEASUREMENT_PLOTS_H_

#include <optional>
#include <vector>

#include "client/cli/experiment/measurement.h"
#include "client/text/plot.h"

namespace stowage {

enum class PlotKind {
  kSlowdownByMemory,     // POFO's Figure 2: a panel for each network and bandwidth
  kSlowdownByBandwidth,  // POFO's Figure 3: a panel for each network and budget
  kRatioByMemory,        // the offloading paper's Figures 5 to 11: panels as the first
};

// A line for each solver, with a gap where it has no schedule, in the order of the measurements.
// `y_most`: as Plot::y_most.
Plot PlotOf(PlotKind kind, const std::vector<Measurement>& measurements,
            std::optional<double> y_most);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_EXPERIMENT_MEASUREMENT_PLOTS_H_
