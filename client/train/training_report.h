// What stowage-train prints: the measured inputs of a solve, and how trainings compare.
#ifndef STOWAGE_CLIENT_TRAIN_TRAINING_REPORT_H_
#define STOWAGE_CLIENT_TRAIN_TRAINING_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/torch/profiler.h"
#include "client/train/session.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"

namespace stowage {

// Each prints to standard output.
void PrintChain(const Chain& chain);
void PrintGraphCosts(const Chain& chain);  // of all units, against their stages in eager mode
void PrintLink(const Platform& platform);
void PrintBudget(const std::string& device, const MemoryBudget& budget);
void PrintVerification(const TrainingMeasurement& measured);
void PrintUnits(const TrainingMeasurement& measured);  // how the schedule's graph units ran
// `memory_bytes`: the budget of the schedule.
void PrintPredictionErrors(const Prediction& predicted, const TrainingMeasurement& measured,
                           int64_t memory_bytes);

// The trainings of one run, as rows of a table. Not thread-safe.
class ComparisonTable {
 public:
  static constexpr const char* kPlain = "plain";  // the row of training without a schedule

  // `compute_seconds`: one step's computations as profiled. Overheads are relative to the plain
  // row's step, or to this if there is none.
  ComparisonTable(int batch, double compute_seconds)
      : batch_(batch), compute_seconds_(compute_seconds) {}

  // A training that does not fit becomes a row, too; any other error is returned.
  absl::Status Add(const std::string& name, absl::StatusOr<TrainingMeasurement> measured,
                   const std::optional<Prediction>& predicted);
  void Print() const;
  // How the rows' losses compare with the plain row's: equal to the bit, or, as kernels that are
  // not deterministic leave them, within a tolerance that the sentence states. Empty where there is
  // nothing to compare. Errors: INTERNAL with the row.
  absl::StatusOr<std::string> CompareLosses() const;

 private:
  struct Row {
    std::string name;
    absl::StatusOr<TrainingMeasurement> measured;
    std::optional<Prediction> predicted;
  };

  const TrainingMeasurement* plain() const;  // null: not measured
  double PlainSeconds() const;

  const int batch_;
  const double compute_seconds_;
  std::vector<Row> rows_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TRAIN_TRAINING_REPORT_H_
