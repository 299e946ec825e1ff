// Throughput by peak memory: auto against other ways to train in less memory.
#include <algorithm>
#include <array>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "solver/algorithms/rematerialization/periodic.h"
#include "solver/base/file.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "tests/gpu/bench.h"
#include "tests/gpu/figures/comparisons.h"
#include "tests/gpu/figures/two_stream.h"
#include "tests/gpu/lab.h"
#include "tests/gpu/saved_on_host.h"

namespace stowage {
namespace {

const std::vector<double> kShares = {0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1};
const std::vector<double> kCoarseShares = {0.1, 0.3, 0.6, 1};
constexpr std::array<double, 4> kOverheads = {0, 0.05, 0.1, 0.2};
// The relative difference between two measurements of one schedule.
constexpr double kScatter = 0.01;

// One way to train, and its measurements.
struct Way {
  std::string name;
  std::vector<RatedPoint> points = {};
  std::vector<Schedule> schedules = {};  // measured ones
};

// The curves of one network.
class Curves {
 public:
  Curves(Lab* lab, Bench* bench) : lab_(*lab), bench_(*bench) {}

  absl::Status Run() {
    RETURN_IF_ERROR(MeasureBaselines());
    for (const char* solver : {"rotor", "pofo"}) {
      Way& way = ways_.emplace_back(Way{solver});
      for (const double share : Shares()) RETURN_IF_ERROR(AddSolved(&way, bench_.BudgetOf(share)));
    }
    const std::vector<RatedPoint> others = FrontOf(PointsOfOthers());
    Way& ours = ways_.emplace_back(Way{"auto"});
    for (const double share : Shares()) RETURN_IF_ERROR(AddSolved(&ours, bench_.BudgetOf(share)));
    // Also at the peak memory of the others' Pareto-optimal points, for a comparison at equal
    // memory.
    for (const RatedPoint& point : others) RETURN_IF_ERROR(AddSolved(&ours, point.peak_bytes));
    RETURN_IF_ERROR(WriteAllPoints());
    RETURN_IF_ERROR(CompareWithOthers());
    return PublishMemoryByOverhead();
  }

 private:
  const std::vector<double>& Shares() const { return lab_.coarse ? kCoarseShares : kShares; }

  absl::Status MeasureBaselines() {
    RETURN_IF_ERROR(
        Add(&ways_.emplace_back(Way{"plain"}), bench_.session().TrainWithoutSchedule(), ""));
    Way& segments = ways_.emplace_back(Way{"segments"});
    // Fewer counts are each half as many again as the one before.
    for (int count = 1; count <= bench_.chain().length();
         count += lab_.coarse ? (count + 1) / 2 : 1) {
      const Schedule schedule = PeriodicSchedule(bench_.chain(), count);
      RETURN_IF_ERROR(Measure(&segments, schedule, absl::StrCat(count, " segments")));
    }
    Session on_host(SavedOnHost(bench_.session().network(), lab_.device.torch), &lab_.device,
                    &MemoryOf(lab_.device.torch), {.steps = lab_.steps, .seed = bench_.seed()});
    RETURN_IF_ERROR(
        Add(&ways_.emplace_back(Way{"save_on_cpu"}), on_host.TrainWithoutSchedule(), ""));
    return Measure(&ways_.emplace_back(Way{"two streams"}), TwoStreamSchedule(bench_.chain()), "");
  }

  absl::Status AddSolved(Way* way, int64_t budget) {
    ASSIGN_OR_RETURN(const auto solved, bench_.Solve(way->name, budget));
    if (!solved.has_value()) return absl::OkStatus();
    return Measure(way, solved->schedule,
                   absl::StrCat(FormatBytes(budget), ": ", solved->solver, ", ",
                                ExtraWorkOf(solved->schedule)));
  }

  // Measures a schedule once: several budgets, or numbers of segments, may lead to the same one.
  absl::Status Measure(Way* way, const Schedule& schedule, const std::string& what) {
    const auto& measured = way->schedules;
    if (std::find(measured.begin(), measured.end(), schedule) != measured.end()) {
      return absl::OkStatus();
    }
    way->schedules.push_back(schedule);
    const auto trained = bench_.TrainUnder(schedule);
    if (!trained.ok()) return Add(way, trained.status(), what);
    return Add(way, trained->measured, what);
  }

  // A training that does not fit becomes a row, too; any other error ends the experiment.
  absl::Status Add(Way* way, const absl::StatusOr<TrainingMeasurement>& measured,
                   const std::string& what) {
    std::vector<Cell> row = {Words(way->name), Words(what)};
    if (absl::IsResourceExhausted(measured.status())) {
      row.push_back(Words("does not fit"));
    } else {
      RETURN_IF_ERROR(measured.status());
      const RatedPoint point = {measured->peak_bytes, bench_.SamplesPerSecondOf(*measured)};
      way->points.push_back(point);
      row.insert(row.end(), {Duration(measured->step_seconds), SamplesPerSecond(point.rate),
                             Size(point.peak_bytes)});
    }
    sheet_.Add(std::move(row));
    return absl::OkStatus();
  }

  const Way& WayOf(const std::string& name) const {
    return *std::find_if(ways_.begin(), ways_.end(),
                         [&name](const Way& way) { return way.name == name; });
  }

  std::vector<RatedPoint> PointsOfOthers() const {
    std::vector<RatedPoint> points;
    for (const Way& way : ways_) {
      if (way.name != "auto") points.insert(points.end(), way.points.begin(), way.points.end());
    }
    return points;
  }

  const std::string& network() const { return bench_.model().name; }

  absl::Status WriteAllPoints() const {
    return WriteFile(lab_.PathOf(absl::StrCat("throughput-", network(), "-all.csv")),
                     sheet_.ToCsv());
  }

  // The name of the way that has the point.
  std::string NameOf(const RatedPoint& point) const {
    for (const Way& way : ways_) {
      if (std::find(way.points.begin(), way.points.end(), point) != way.points.end()) {
        return way.name;
      }
    }
    return "";
  }

  absl::Status CompareWithOthers() const {
    const std::vector<RatedPoint>& ours = WayOf("auto").points;
    const auto comparisons = CompareAtEqualMemory(ours, PointsOfOthers(), kScatter);
    Sheet sheet(
        {"best of the others", "peak", "samples/s", "auto's peak", "auto's samples/s", "gain"});
    for (const Comparison& comparison : comparisons) {
      std::vector<Cell> row = {Words(NameOf(comparison.other)), Size(comparison.other.peak_bytes),
                               SamplesPerSecond(comparison.other.rate)};
      if (comparison.ours.has_value()) {
        row.insert(row.end(), {Size(comparison.ours->peak_bytes),
                               SamplesPerSecond(comparison.ours->rate), Change(comparison.Gain())});
      }
      sheet.Add(std::move(row));
    }
    const auto segments = CompareAtEqualMemory(ours, WayOf("segments").points, kScatter);
    return lab_.Publish(
        absl::StrCat("throughput-", network()),
        absl::StrCat("Throughput: ", bench_.chain().name,
                     ", auto at the peak memory of the others"),
        sheet,
        {GainText("the best of the others", GainsOf(comparisons)),
         GainText("segments", GainsOf(segments)),
         absl::StrFormat("Peaks count as equal within %g %%; all points: throughput-%s-all.csv.",
                         100 * kScatter, network())});
  }

  static std::string GainText(const char* over, const Gains& gains) {
    return absl::StrFormat(
        "Gain over %s at equal peak memory, %d points (%d more with less memory than auto has a "
        "schedule for): %+.1f %% mean, %+.1f %% least, %+.1f %% most.",
        over, gains.compared, gains.missing, 100 * gains.mean, 100 * gains.least, 100 * gains.most);
  }

  absl::Status PublishMemoryByOverhead() const {
    const std::vector<RatedPoint>& plain = WayOf("plain").points;
    if (plain.empty()) return absl::OkStatus();  // does not fit: nothing to compare with
    Sheet sheet({"overhead", "plain", "segments", "auto", "auto's part of plain"});
    for (const double overhead : kOverheads) {
      const auto least = [&](const char* way) {
        return LeastMemoryAt(WayOf(way).points, plain.front().rate, overhead + kScatter);
      };
      const auto ours = least("auto");
      std::vector<Cell> row = {Share(overhead), Size(plain.front().peak_bytes),
                               Maybe<int64_t>(Size, least("segments")), Maybe<int64_t>(Size, ours)};
      if (ours.has_value()) {
        row.push_back(Words(absl::StrFormat(
            "1/%.2f", static_cast<double>(plain.front().peak_bytes) / static_cast<double>(*ours))));
      }
      sheet.Add(std::move(row));
    }
    return lab_.Publish(
        absl::StrCat("throughput-", network(), "-overhead"),
        absl::StrCat("Throughput: ", bench_.chain().name, ", the least peak memory by overhead"),
        sheet,
        {absl::StrFormat("Overhead: of a sample's time over plain training's, within %g %%.",
                         100 * kScatter)});
  }

  Lab& lab_;
  Bench& bench_;
  std::deque<Way> ways_;  // a deque keeps references valid
  Sheet sheet_{{"way", "what", "step", "samples/s", "peak"}};
};

}  // namespace

absl::Status Throughput(Lab* lab) {
  for (const Model& model : lab->models) {
    ASSIGN_OR_RETURN(const auto bench, Bench::Open(model, &lab->device, {.steps = lab->steps}));
    RETURN_IF_ERROR(bench->Profile());
    RETURN_IF_ERROR(Curves(lab, bench.get()).Run());
  }
  return absl::OkStatus();
}

}  // namespace stowage
