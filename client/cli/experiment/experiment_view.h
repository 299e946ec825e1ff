// An experiment as the page of server/web shows it.
#ifndef STOWAGE_CLIENT_CLI_EXPERIMENT_EXPERIMENT_VIEW_H_
#define STOWAGE_CLIENT_CLI_EXPERIMENT_EXPERIMENT_VIEW_H_

#include <vector>

#include "client/cli/experiment/experimenter.h"
#include "client/cli/experiment/measurement.h"
#include "client/cli/experiment/summary.h"
#include "stowage/v1/view.pb.h"

namespace stowage {

// Fills networks and summary; how it was measured is left to the caller. Requires: the rows of a
// network follow one another, and those of a budget and link, too, as in Experimenter::rows().
void Fill(const std::vector<NetworkProfile>& networks, const std::vector<Measurement>& rows,
          const Summary& summary, v1::Experiment* message);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_EXPERIMENT_EXPERIMENT_VIEW_H_
