#include "client/cli/experiment/summary.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/text/table.h"

namespace stowage {
namespace {

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

constexpr double kCheap = 0.2;  // "below 20 %", as the POFO paper puts it
constexpr char kReference[] = "rotor";

// Adds one answer to the record of its solver; returns its part of the overheads that are compared.
double Count(const Measurement& row, const Answers& answers, Record* record) {
  // Equal makespans may differ by the order of floating-point additions.
  constexpr double kSame = 1 + 1e-9;
  ++record->points;
  if (!row.prediction.has_value()) return 0;
  ++record->feasible;
  if (row.prediction->overhead < kCheap) ++record->cheap;
  if (row.prediction->makespan_seconds <= answers.fastest_seconds * kSame) ++record->wins;
  return answers.feasible == answers.solved ? row.prediction->overhead : 0;
}

}  // namespace

Summary SummaryOf(const std::vector<Measurement>& measurements) {
  const std::map<PointKey, Answers> points = ByPoint(measurements);
  Summary summary;
  summary.points = points.size();
  for (const auto& [key, answers] : points) {
    if (answers.feasible == answers.solved) ++summary.common_points;
  }
  std::vector<double> overheads;  // sums over the common points, by solver
  for (const Measurement& row : measurements) {
    std::vector<Record>& records = summary.records;
    const auto record = std::find_if(records.begin(), records.end(), [&row](const Record& each) {
      return each.solver == row.solver;
    });
    const auto index = static_cast<size_t>(record - records.begin());
    if (record == records.end()) {
      records.push_back({.solver = row.solver});
      overheads.push_back(0);
    }
    overheads[index] += Count(row, points.at(KeyOf(row)), &records[index]);
  }
  double reference = 0;
  for (size_t i = 0; i < overheads.size(); ++i) {
    if (summary.records[i].solver == kReference) reference = overheads[i];
  }
  for (size_t i = 0; i < overheads.size(); ++i) {
    Record& record = summary.records[i];
    if (summary.common_points > 0) {
      record.mean_overhead = overheads[i] / static_cast<double>(summary.common_points);
    }
    if (reference > 0) record.share_of_rotor = overheads[i] / reference;
  }
  return summary;
}

std::string SummaryText(const Summary& summary) {
  using Align = Table::Align;
  Table table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight,
               Align::kRight, Align::kRight});
  table.Add({"solver", "points", "feasible", "below +20 %", "mean overhead", "of rotor's", "wins"});
  for (const Record& record : summary.records) {
    const std::optional<double>& mean = record.mean_overhead;
    const std::optional<double>& share = record.share_of_rotor;
    table.Add({record.solver, absl::StrCat(record.points), absl::StrCat(record.feasible),
               absl::StrCat(record.cheap),
               mean.has_value() ? absl::StrFormat("%+.1f %%", *mean * 100) : "-",
               share.has_value() ? absl::StrFormat("%.0f %%", *share * 100) : "-",
               absl::StrCat(record.wins)});
  }
  return absl::StrCat(table.ToString(2), "  mean overhead: of the ", summary.common_points, " of ",
                      summary.points,
                      " points that every solver has a schedule for; wins: nobody was faster\n");
}

}  // namespace stowage
