#include "client/cli/experiment/measurement.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"

namespace stowage {
namespace {

std::string Number(double value) { return absl::StrFormat("%.12g", value); }

std::string Number(const std::optional<double>& value) {
  return value.has_value() ? Number(*value) : "";
}

// Quotes a cell as RFC 4180 says: names may contain commas and quotes.
std::string Cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

struct Column {
  const char* name;
  std::string (*cell)(const Measurement& row);
};

// A cell of a prediction; empty without a schedule.
template <typename Value>
std::string Predicted(const Measurement& row, Value Prediction::*value) {
  if (!row.prediction.has_value()) return "";
  if constexpr (std::is_same_v<Value, double>) return Number((*row.prediction).*value);
  return absl::StrCat((*row.prediction).*value);
}

// The CSV's columns in order; scripts read them by name.
constexpr Column kColumns[] = {
    {"network", [](const Measurement& row) { return Cell(row.network); }},
    {"stages", [](const Measurement& row) { return absl::StrCat(row.stages); }},
    {"alpha", [](const Measurement& row) { return Number(row.alpha); }},
    {"memory_bytes",
     [](const Measurement& row) { return absl::StrCat(row.platform.memory_bytes); }},
    {"offload_gb_per_second",
     [](const Measurement& row) {
       return Number(row.platform.offload_bytes_per_second / kGigabyte);
     }},
    {"prefetch_gb_per_second",
     [](const Measurement& row) { return Number(row.platform.prefetch_rate() / kGigabyte); }},
    {"transfer_latency_seconds",
     [](const Measurement& row) { return Number(row.platform.transfer_latency_seconds); }},
    {"half_duplex",
     [](const Measurement& row) {
       return std::string(row.platform.half_duplex ? "true" : "false");
     }},
    {"host_memory_bytes",
     [](const Measurement& row) { return absl::StrCat(row.platform.host_memory_bytes); }},
    {"solver", [](const Measurement& row) { return Cell(row.solver); }},
    {"outcome", [](const Measurement& row) { return row.outcome; }},
    {"schedule_of", [](const Measurement& row) { return row.schedule_of; }},
    {"makespan_seconds",
     [](const Measurement& row) { return Predicted(row, &Prediction::makespan_seconds); }},
    {"sequential_seconds", [](const Measurement& row) { return Number(row.sequential_seconds); }},
    {"overhead", [](const Measurement& row) { return Predicted(row, &Prediction::overhead); }},
    {"transfer_bound_seconds",
     [](const Measurement& row) { return Number(row.transfer_bound_seconds); }},
    {"ratio", [](const Measurement& row) { return Number(row.RatioToBound()); }},
    {"peak_memory_bytes",
     [](const Measurement& row) { return Predicted(row, &Prediction::peak_memory_bytes); }},
    {"peak_host_bytes",
     [](const Measurement& row) { return Predicted(row, &Prediction::peak_host_bytes); }},
    {"recompute_seconds",
     [](const Measurement& row) { return Predicted(row, &Prediction::recompute_seconds); }},
    {"idle_seconds",
     [](const Measurement& row) { return Predicted(row, &Prediction::idle_seconds); }},
    {"solve_seconds",
     [](const Measurement& row) { return absl::StrFormat("%.6f", row.solve_seconds); }},
};

}  // namespace

std::optional<double> Measurement::RatioToBound() const {
  if (!prediction.has_value() || transfer_bound_seconds <= 0) return std::nullopt;
  return prediction->makespan_seconds / transfer_bound_seconds;
}

// D is `missing`: it leaves at one rate and comes back at the other, one transfer each.
double TransferBoundSeconds(const Chain& chain, const Platform& platform) {
  const double compute = ComputeSeconds(chain);
  const int64_t missing = StoreAllPeakBytes(chain) - platform.memory_bytes;
  const double out = platform.offload_bytes_per_second;
  const double back = platform.prefetch_rate();
  if (missing <= 0 || out <= 0 || back <= 0) return compute;
  const auto bytes = static_cast<double>(missing);
  return std::max(compute, bytes / out + bytes / back + 2 * platform.transfer_latency_seconds);
}

std::string CsvHeader() {
  const auto name = [](std::string* out, const Column& column) { *out += column.name; };
  return absl::StrJoin(kColumns, ",", name) + "\n";
}

std::string CsvRow(const Measurement& measurement) {
  const auto cell = [&measurement](std::string* out, const Column& column) {
    *out += column.cell(measurement);
  };
  return absl::StrJoin(kColumns, ",", cell) + "\n";
}

}  // namespace stowage
