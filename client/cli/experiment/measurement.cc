#include "client/cli/experiment/measurement.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "client/text/table.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"

namespace stowage {
namespace {

constexpr double kGigabyte = 1e9;

std::optional<double> Quotient(const std::optional<Prediction>& prediction, double seconds) {
  if (!prediction.has_value() || seconds <= 0) return std::nullopt;
  return prediction->makespan_seconds / seconds;
}

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

// Network, alpha and bandwidth: what all solvers solve for.
using PointKey = std::tuple<std::string, double, double>;

// The answers of all solvers at one point: `solved` counts rows, infeasible ones included.
struct Answers {
  int solved = 0;
  int feasible = 0;
  double fastest_seconds = std::numeric_limits<double>::infinity();
};

PointKey KeyOf(const Measurement& row) {
  return {row.network, row.alpha, row.platform.offload_bytes_per_second};
}

std::map<PointKey, Answers> ByPoint(const std::vector<Measurement>& measurements) {
  std::map<PointKey, Answers> points;
  for (const Measurement& row : measurements) {
    Answers& answers = points[KeyOf(row)];
    ++answers.solved;
    if (!row.prediction.has_value()) continue;
    ++answers.feasible;
    answers.fastest_seconds = std::min(answers.fastest_seconds, row.prediction->makespan_seconds);
  }
  return points;
}

// A row of the summary.
struct Record {
  std::string solver;
  int points = 0;
  int feasible = 0;
  int wins = 0;
  int cheap = 0;                // with an overhead below kCheap
  double common_overheads = 0;  // sum over the points at which every solver has a schedule
};

constexpr double kCheap = 0.2;  // "below 20 %", as the POFO paper puts it
constexpr char kReference[] = "rotor";

// Adds one answer to the record of its solver.
void Count(const Measurement& row, const Answers& answers, Record* record) {
  // Equal makespans may differ by the order of floating-point additions.
  constexpr double kSame = 1 + 1e-9;
  ++record->points;
  if (!row.prediction.has_value()) return;
  ++record->feasible;
  if (row.prediction->overhead < kCheap) ++record->cheap;
  if (row.prediction->makespan_seconds <= answers.fastest_seconds * kSame) ++record->wins;
  if (answers.feasible == answers.solved) record->common_overheads += row.prediction->overhead;
}

// By solver, in order of appearance.
std::vector<Record> RecordsOf(const std::vector<Measurement>& measurements,
                              const std::map<PointKey, Answers>& points) {
  std::vector<Record> records;
  for (const Measurement& row : measurements) {
    auto record = std::find_if(records.begin(), records.end(),
                               [&row](const Record& each) { return each.solver == row.solver; });
    if (record == records.end()) record = records.insert(record, Record{.solver = row.solver});
    Count(row, points.at(KeyOf(row)), &*record);
  }
  return records;
}

}  // namespace

std::optional<double> Measurement::Slowdown() const {
  return Quotient(prediction, sequential_seconds);
}

std::optional<double> Measurement::RatioToBound() const {
  return Quotient(prediction, transfer_bound_seconds);
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

std::string SummaryText(const std::vector<Measurement>& measurements) {
  const std::map<PointKey, Answers> points = ByPoint(measurements);
  const auto common = std::count_if(points.begin(), points.end(), [](const auto& point) {
    return point.second.feasible == point.second.solved;
  });
  const std::vector<Record> records = RecordsOf(measurements, points);
  const auto reference = std::find_if(records.begin(), records.end(), [](const Record& record) {
    return record.solver == kReference;
  });
  // Without rotor, or where it loses no time, the share has no value and its cell shows "-".
  const double of = reference == records.end() ? 0 : reference->common_overheads;
  using Align = Table::Align;
  Table table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight,
               Align::kRight, Align::kRight});
  table.Add({"solver", "points", "feasible", "below +20 %", "mean overhead", "of rotor's", "wins"});
  for (const Record& record : records) {
    const double mean = record.common_overheads / static_cast<double>(common);
    const double share = record.common_overheads / of;
    table.Add({record.solver, absl::StrCat(record.points), absl::StrCat(record.feasible),
               absl::StrCat(record.cheap),
               common > 0 ? absl::StrFormat("%+.1f %%", mean * 100) : "-",
               of > 0 ? absl::StrFormat("%.0f %%", share * 100) : "-", absl::StrCat(record.wins)});
  }
  return absl::StrCat(table.ToString(2), "  mean overhead: of the ", common, " of ", points.size(),
                      " points that every solver has a schedule for; wins: nobody was faster\n");
}

}  // namespace stowage
