#include "client/train/training_report.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/text/table.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"

namespace stowage {
namespace {

bool EqualToTheBit(double one, double other) {
  return std::bit_cast<uint64_t>(one) == std::bit_cast<uint64_t>(other);
}

}  // namespace

void PrintChain(const Chain& chain) {
  absl::PrintF("%s: %d stages; storing everything takes %s a step and %s\n", chain.name,
               chain.length(), FormatSeconds(ComputeSeconds(chain)),
               FormatBytes(StoreAllPeakBytes(chain)));
}

void PrintGraphCosts(const Chain& chain) {
  // Sums over the units that can run in graph mode.
  struct Costs {
    double seconds = 0;
    int64_t bytes = 0;

    void Add(const Stage& stage) {
      seconds += stage.forward_seconds + stage.backward_seconds;
      bytes += stage.saved_bytes;
    }
  };
  Costs eager;
  Costs graph;
  int units = 0;
  for (const Unit& unit : UnitsOf(chain)) {
    if (!unit.has_graph) continue;
    ++units;
    for (int l = unit.first; l <= unit.last; ++l) eager.Add(chain.stage(l));
    graph.Add(GraphStage(chain, unit));
  }
  absl::PrintF("graph mode: %d units take %s and save %s; as eager stages %s and %s\n", units,
               FormatSeconds(graph.seconds), FormatBytes(graph.bytes), FormatSeconds(eager.seconds),
               FormatBytes(eager.bytes));
}

void PrintLink(const Platform& platform) {
  absl::PrintF("link: %s to the host, %s to the device, %s a transfer, %s duplex\n",
               FormatBytesPerSecond(platform.offload_bytes_per_second),
               FormatBytesPerSecond(platform.prefetch_rate()),
               FormatSeconds(platform.transfer_latency_seconds),
               platform.half_duplex ? "half" : "full");
}

void PrintBudget(const std::string& device, const MemoryBudget& budget) {
  Table table({Table::Align::kLeft, Table::Align::kRight});
  table.Add({"memory of " + device, FormatBytes(budget.device_bytes)});
  table.Add({"- in use, context", FormatBytes(budget.context_bytes)});
  table.Add({"- weights, buffers", FormatBytes(budget.weight_bytes)});
  table.Add({"- gradients", FormatBytes(budget.gradient_bytes)});
  table.Add({"- optimizer", FormatBytes(budget.optimizer_bytes)});
  table.Add({"- margin", FormatBytes(budget.margin_bytes)});
  table.Add({"= for activations", FormatBytes(std::max<int64_t>(budget.activation_bytes(), 0))});
  absl::PrintF("%s", table.ToString(2));
}

void PrintVerification(const TrainingMeasurement& measured) {
  if (measured.verified_recomputations == 0) {
    absl::PrintF("verified: the schedule recomputes nothing, so there was nothing to compare\n");
    return;
  }
  absl::PrintF("verified: %d recomputations had the outputs of their first runs\n",
               measured.verified_recomputations);
}

void PrintUnits(const TrainingMeasurement& measured) {
  if (measured.traced.empty() && measured.as_block.empty()) {
    absl::PrintF("graph mode: the schedule runs nothing in it\n");
    return;
  }
  absl::PrintF("graph mode: %d by a trace, %d as blocks\n", measured.traced.size(),
               measured.as_block.size());
  for (const std::string& name : measured.traced) absl::PrintF("  %s: by a trace\n", name);
  for (const std::string& block : measured.as_block) absl::PrintF("  %s\n", block);
}

void PrintPredictionErrors(const Prediction& predicted, const TrainingMeasurement& measured,
                           int64_t memory_bytes) {
  absl::PrintF("\nmeasured against predicted: time %+.1f %%, peak %+.1f %%\n",
               100 * (measured.step_seconds / predicted.makespan_seconds - 1),
               100 * (static_cast<double>(measured.peak_bytes) /
                          static_cast<double>(predicted.peak_memory_bytes) -
                      1));
  // The prediction may be too low by overheads of LibTorch; a smaller budget makes up for that.
  const int64_t over = measured.peak_bytes - memory_bytes;
  if (over <= 0) return;
  absl::PrintF("note: the peak was %s over the budget; to stay within it, pass --memory %d\n",
               FormatBytes(over), memory_bytes - over);
}

absl::Status ComparisonTable::Add(const std::string& name,
                                  absl::StatusOr<TrainingMeasurement> measured,
                                  const std::optional<Prediction>& predicted) {
  if (!measured.ok() && !absl::IsResourceExhausted(measured.status())) return measured.status();
  rows_.push_back({name, std::move(measured), predicted});
  return absl::OkStatus();
}

void ComparisonTable::Print() const {
  constexpr auto kLeft = Table::Align::kLeft;
  constexpr auto kRight = Table::Align::kRight;
  Table table({kLeft, kRight, kRight, kRight, kRight, kRight, kRight, kRight});
  table.Add({"", "step", "predicted", "samples/s", "overhead", "peak", "predicted", "loss"});
  for (const Row& row : rows_) {
    if (!row.measured.ok()) {
      table.Add({row.name, "does not fit"});
      continue;
    }
    const TrainingMeasurement& measured = *row.measured;
    const auto& predicted = row.predicted;
    table.Add({row.name, FormatSeconds(measured.step_seconds),
               predicted.has_value() ? FormatSeconds(predicted->makespan_seconds) : "",
               absl::StrFormat("%.2f", batch_ / measured.step_seconds),
               absl::StrFormat("%+.1f %%", 100 * (measured.step_seconds / PlainSeconds() - 1)),
               FormatBytes(measured.peak_bytes),
               predicted.has_value() ? FormatBytes(predicted->peak_memory_bytes) : "",
               absl::StrFormat("%.6g", measured.loss)});
  }
  absl::PrintF("%s", table.ToString(2));
}

absl::StatusOr<std::string> ComparisonTable::CompareLosses() const {
  // What remains of a loss near 0 is its rounding.
  constexpr double kRelativeTolerance = 0.01;
  constexpr double kAbsoluteTolerance = 1e-6;
  const auto* const reference = plain();
  if (reference == nullptr || rows_.size() < 2) return "";
  const double loss = reference->loss;
  const double tolerance = kAbsoluteTolerance + kRelativeTolerance * std::abs(loss);
  std::vector<std::string> differing;
  for (const Row& row : rows_) {
    if (!row.measured.ok() || EqualToTheBit(row.measured->loss, loss)) continue;
    const double difference = std::abs(row.measured->loss - loss);
    if (!(difference <= tolerance)) {
      return absl::InternalError(absl::StrFormat(
          "%s: its loss differs from that of plain training by %.3g, and more than %.3g (1 %% and "
          "1e-6) is no rounding; --verify may name the stage",
          row.name, difference, tolerance));
    }
    differing.push_back(absl::StrFormat("%s by %.3g", row.name, difference));
  }
  if (differing.empty()) return "losses: equal to the bit";
  return absl::StrFormat("losses: not equal to the bit, but within %.3g (1 %% and 1e-6): %s",
                         tolerance, absl::StrJoin(differing, ", "));
}

const TrainingMeasurement* ComparisonTable::plain() const {
  const bool measured =
      !rows_.empty() && rows_.front().name == kPlain && rows_.front().measured.ok();
  return measured ? &*rows_.front().measured : nullptr;
}

double ComparisonTable::PlainSeconds() const {
  return plain() == nullptr ? compute_seconds_ : plain()->step_seconds;
}

}  // namespace stowage
