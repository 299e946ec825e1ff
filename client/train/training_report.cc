#include "client/train/training_report.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/text/table.h"
#include "solver/base/quantile.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

bool EqualToTheBit(double one, double other) {
  return std::bit_cast<uint64_t>(one) == std::bit_cast<uint64_t>(other);
}

std::vector<double> Sorted(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
}

// "+20.4 %", "+1.5 %, within noise".
std::string OverheadText(const TrainingSamples& training, const TrainingSamples& plain) {
  if (&training == &plain || plain.seconds.size() != training.seconds.size()) return "";
  const Overhead overhead = OverheadOf(training.seconds, plain.seconds);
  return absl::StrFormat("%+.1f %%%s", 100 * overhead.median,
                         overhead.within_noise() ? ", within noise" : "");
}

std::vector<std::string> RowOf(const TrainingSamples& training, const TrainingSamples& plain,
                               int batch) {
  if (!training.status.ok()) return {training.name, "does not fit"};
  const std::vector<double> seconds = Sorted(training.seconds);
  const double median = MedianOf(seconds);
  const auto& predicted = training.predicted;
  return {training.name,
          FormatSeconds(median),
          absl::StrCat(FormatSeconds(QuantileOf(seconds, 0.1)), " to ",
                       FormatSeconds(QuantileOf(seconds, 0.9))),
          absl::StrCat(seconds.size()),
          predicted.has_value() ? FormatSeconds(predicted->makespan_seconds) : "",
          absl::StrFormat("%.2f", batch / median),
          OverheadText(training, plain),
          FormatBytes(training.peak_bytes),
          predicted.has_value() ? FormatBytes(predicted->peak_memory_bytes) : "",
          FormatBytes(training.host_bytes),
          absl::StrFormat("%.6g", training.losses.back())};
}

// How one training's losses differ from plain training's; "" if they do not.
absl::StatusOr<std::string> LossDifference(const TrainingSamples& training,
                                           const TrainingSamples& plain) {
  // What remains of a loss near 0 is its rounding.
  constexpr double kRelativeTolerance = 0.01;
  constexpr double kAbsoluteTolerance = 1e-6;
  double most = 0;
  bool equal = true;
  for (size_t i = 0; i < std::min(training.losses.size(), plain.losses.size()); ++i) {
    const double loss = training.losses[i];
    const double expected = plain.losses[i];
    if (EqualToTheBit(loss, expected)) continue;
    equal = false;
    const double difference = std::abs(loss - expected);
    const double tolerance = kAbsoluteTolerance + kRelativeTolerance * std::abs(expected);
    if (!(difference <= tolerance)) {
      return absl::InternalError(absl::StrFormat(
          "%s: its loss of step %d differs from that of plain training by %.3g, and more than %.3g "
          "(1 %% and 1e-6) is no rounding; --verify may name the stage",
          training.name, i + 1, difference, tolerance));
    }
    most = std::max(most, difference);
  }
  return equal ? "" : absl::StrFormat("%s by up to %.3g", training.name, most);
}

}  // namespace

// By order statistics: the number of ratios below their true median is binomial, of which
// n / 2 +- 0.98 sqrt(n) holds 95 %.
Overhead OverheadOf(const std::vector<double>& seconds, const std::vector<double>& of_plain) {
  constexpr size_t kLeastForAnInterval = 6;  // 1 - 2 / 2^6 is the first above 95 %
  std::vector<double> overheads;
  for (size_t i = 0; i < seconds.size(); ++i) overheads.push_back(seconds[i] / of_plain[i] - 1);
  overheads = Sorted(std::move(overheads));
  const double median = MedianOf(overheads);
  if (overheads.size() < kLeastForAnInterval) {
    return {median, std::min(0.0, overheads.front()), std::max(0.0, overheads.back())};
  }
  const auto count = static_cast<double>(overheads.size());
  const double below = std::max(0.0, std::floor(count / 2 - 0.98 * std::sqrt(count)));
  const auto low = static_cast<size_t>(below);
  return {median, overheads[low], overheads[overheads.size() - 1 - low]};
}

std::string ComparisonText(const std::vector<TrainingSamples>& trainings, int batch) {
  constexpr auto kRight = Table::Align::kRight;
  std::vector<Table::Align> columns(11, kRight);
  columns.front() = Table::Align::kLeft;
  Table table(columns);
  table.Add({"", "step", "10 to 90 %", "steps", "predicted", "samples/s", "overhead", "peak",
             "predicted", "host", "loss"});
  for (const TrainingSamples& training : trainings) {
    table.Add(RowOf(training, trainings.front(), batch));
  }
  return table.ToString(2);
}

absl::StatusOr<std::string> CompareLosses(const std::vector<TrainingSamples>& trainings) {
  if (trainings.size() < 2 || !trainings.front().status.ok()) return "";
  std::vector<std::string> differing;
  for (const TrainingSamples& training : trainings) {
    if (!training.status.ok()) continue;
    absl::StatusOr<std::string> difference = LossDifference(training, trainings.front());
    if (!difference.ok()) return difference.status();
    if (!difference->empty()) differing.push_back(*std::move(difference));
  }
  if (differing.empty()) return "losses: equal to the bit";
  return absl::StrCat("losses: not equal to the bit, but within 1 % and 1e-6: ",
                      absl::StrJoin(differing, ", "));
}

std::string PredictionErrorText(const TrainingSamples& training, int64_t budget_bytes) {
  std::string text;
  if (training.predicted.has_value()) {
    const auto peak = static_cast<double>(training.peak_bytes);
    text = absl::StrFormat(
        "measured against predicted: time %+.1f %%, peak %+.1f %%\n",
        100 * (MedianOf(training.seconds) / training.predicted->makespan_seconds - 1),
        100 * (peak / static_cast<double>(training.predicted->peak_memory_bytes) - 1));
  }
  if (training.peak_bytes > budget_bytes) {
    absl::StrAppend(&text, "note: the peak was ", FormatBytes(training.peak_bytes - budget_bytes),
                    " over the budget\n");
  }
  return text;
}

}  // namespace stowage
