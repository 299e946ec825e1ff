// What a run of stowage-train leaves behind: files, and a report to the server.
#ifndef STOWAGE_CLIENT_TRAIN_OUTPUTS_H_
#define STOWAGE_CLIENT_TRAIN_OUTPUTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/torch/fit.h"
#include "client/train/networks.h"
#include "client/train/train_options.h"
#include "client/train/training_report.h"

namespace stowage {

// Fails before the training if a file cannot be written after it. Errors name the flag.
absl::Status CheckOutputs(const TrainOptions& options);

// Writes the files, for which it may run another step, and tells the server what was measured.
// Returns notes. May throw what Fit throws.
absl::StatusOr<std::vector<std::string>> WriteOutputs(const TrainOptions& options,
                                                      const FitOptions& fit_options,
                                                      const Network& network,
                                                      const TrainingSamples& measured, Fit* fit);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TRAIN_OUTPUTS_H_
