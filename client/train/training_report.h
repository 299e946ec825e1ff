// How trainings of one network compare: times, memory and losses.
#ifndef STOWAGE_CLIENT_TRAIN_TRAINING_REPORT_H_
#define STOWAGE_CLIENT_TRAIN_TRAINING_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "solver/model/prediction.h"

namespace stowage {

// What the steps of one training took: forward and backward, without the optimizer's step.
struct TrainingSamples {
  std::string name = {};
  absl::Status status = absl::OkStatus();  // RESOURCE_EXHAUSTED: it does not fit
  std::vector<double> seconds = {};        // of measured steps, in order
  int64_t peak_bytes = 0;                  // of activations and gradients, with the input
  int64_t host_bytes = 0;                  // of values that wait in host memory
  std::vector<double> losses = {};         // of all steps
  std::optional<Prediction> predicted = {};
};

// By how much steps take longer than those of another training that were measured in turn with
// them: the median of the ratios less 1, and the interval that holds the true median with 95 %.
struct Overhead {
  double median = 0;
  double low = 0;
  double high = 0;

  bool within_noise() const { return low <= 0 && high >= 0; }
};
// Requires: equally many samples, at least one. Up to five are too few for such an interval, which
// then contains 0.
Overhead OverheadOf(const std::vector<double>& seconds, const std::vector<double>& of_plain);

// A table with a row for each training. Overheads are relative to the first one. `batch`: the
// samples of a step.
std::string ComparisonText(const std::vector<TrainingSamples>& trainings, int batch);

// How losses compare with the first training's, step by step: equal to the bit, or, as kernels that
// are not deterministic leave them, within a tolerance that the sentence states. Empty where there
// is nothing to compare. Errors: INTERNAL with the training and the step.
absl::StatusOr<std::string> CompareLosses(const std::vector<TrainingSamples>& trainings);

// How far a training's steps were from their prediction, if they have one, and above the budget.
// Requires: samples.
std::string PredictionErrorText(const TrainingSamples& training, int64_t budget_bytes);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TRAIN_TRAINING_REPORT_H_
