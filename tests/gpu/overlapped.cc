// Copies concurrent with computations: the speed of both, and the share of copy time that a step
// hides.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/train/trace.h"
#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/base/file.h"
#include "solver/base/quantile.h"
#include "solver/base/status_macros.h"
#include "solver/simulator/simulator.h"
#include "tests/gpu/bench.h"
#include "tests/gpu/figures/overlap.h"
#include "tests/gpu/figures/two_stream.h"
#include "tests/gpu/lab.h"
#include "tests/gpu/link_load.h"

namespace stowage {
namespace {

constexpr int kRepeats = 5;  // of bandwidths and traces; --steps sets that of steps
constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr std::array<int64_t, 4> kSizes = {kMebibyte, 8 * kMebibyte, 64 * kMebibyte,
                                           256 * kMebibyte};
constexpr Directions kToHost = {.to_host = true};
constexpr Directions kToDevice = {.to_device = true};
constexpr Directions kBoth = {.to_host = true, .to_device = true};

absl::StatusOr<LinkRates> MedianRates(LinkLoad* load, Directions directions, int copies) {
  std::vector<double> to_host;
  std::vector<double> to_device;
  for (int i = -1; i < kRepeats; ++i) {
    ASSIGN_OR_RETURN(const LinkRates rates, load->Measure(directions, copies));
    if (i < 0) continue;  // the first run is a warm-up
    to_host.push_back(rates.to_host);
    to_device.push_back(rates.to_device);
  }
  return LinkRates{MedianOf(std::move(to_host)), MedianOf(std::move(to_device))};
}

absl::Status MeasureLink(Lab* lab) {
  Sheet sheet({"copies of", "to the host alone", "to the device alone", "to the host, both ways",
               "to the device, both ways"});
  for (const int64_t bytes : kSizes) {
    ASSIGN_OR_RETURN(const auto load, LinkLoad::Create(lab->device.agent.get(), bytes));
    const int copies = static_cast<int>(std::max<int64_t>(2, 128 * kMebibyte / bytes));
    ASSIGN_OR_RETURN(const LinkRates to_host, MedianRates(load.get(), kToHost, copies));
    ASSIGN_OR_RETURN(const LinkRates to_device, MedianRates(load.get(), kToDevice, copies));
    ASSIGN_OR_RETURN(const LinkRates both, MedianRates(load.get(), kBoth, copies));
    sheet.Add({Size(bytes), Bandwidth(to_host.to_host), Bandwidth(to_device.to_device),
               Bandwidth(both.to_host), Bandwidth(both.to_device)});
  }
  return lab->Publish("overlapped-link", "Overlapped: the link, from and to pinned host memory",
                      sheet, {absl::StrFormat("Copies in a row, medians of %d runs.", kRepeats)});
}

// Times a plain training step alone and during copies.
class StepDuringCopies {
 public:
  StepDuringCopies(Lab* lab, Bench* bench, LinkLoad* load)
      : lab_(*lab), bench_(*bench), load_(*load) {}

  absl::Status AddTo(Sheet* sheet) {
    ASSIGN_OR_RETURN(alone_, Seconds({}));
    std::vector<Cell> row = {Words(bench_.model().name), Duration(alone_)};
    for (const Directions directions : {kToHost, kToDevice, kBoth}) {
      ASSIGN_OR_RETURN(const double seconds, Seconds(directions));
      row.push_back(Change(seconds / alone_ - 1));
    }
    sheet->Add(std::move(row));
    return absl::OkStatus();
  }

  static constexpr int64_t kBytes = 64 * kMebibyte;

 private:
  // Enough to last for a step that they slow down threefold.
  int Copies() const {
    const Platform& platform = bench_.platform();
    const double rate = std::max(platform.offload_bytes_per_second, platform.prefetch_rate());
    return 1 + static_cast<int>(std::ceil(3 * alone_ * rate / static_cast<double>(kBytes)));
  }

  absl::StatusOr<double> Seconds(Directions directions) {
    std::vector<double> seconds;
    for (int i = -Session::kUnmeasured; i < lab_.steps; ++i) {
      RETURN_IF_ERROR(load_.Enqueue(directions, Copies()));
      at::Tensor loss;
      ASSIGN_OR_RETURN(const double once, StepWithoutSchedule(bench_.session().network(),
                                                              lab_.device.agent.get(), &loss));
      if (i >= 0) seconds.push_back(once);
    }
    return MedianOf(std::move(seconds));
  }

  Lab& lab_;
  Bench& bench_;
  LinkLoad& load_;
  double alone_ = 0;  // the step's seconds
};

bool Computes(const Command& command) { return IsCompute(command.kind); }
bool Copies(const Command& command) {
  return command.kind == OperationKind::kOffload || command.kind == OperationKind::kPrefetch;
}

// Seconds of every stage's forward and backward in steps without copies.
class TimesWithoutCopies {
 public:
  static absl::StatusOr<TimesWithoutCopies> Measure(Bench* bench) {
    ASSIGN_OR_RETURN(const FrameworkPlan plan, bench->PlanOf(StoreAllSchedule(bench->chain())));
    std::vector<std::vector<double>> seconds(plan.commands.size());
    ASSIGN_OR_RETURN(const auto steps, bench->session().Trace(plan, kRepeats));
    for (const MeasuredStep& step : steps) {
      for (size_t c = 0; c < seconds.size(); ++c) {
        seconds[c].push_back(step.times[c].end_seconds - step.times[c].start_seconds);
      }
    }
    TimesWithoutCopies times;
    const auto stages = static_cast<size_t>(bench->chain().length()) + 2;
    times.forward_.resize(stages);
    times.backward_.resize(stages);
    for (size_t c = 0; c < seconds.size(); ++c) {
      times.Of(plan.commands[c]) = MedianOf(std::move(seconds[c]));
    }
    return times;
  }

  double& Of(const Command& command) {
    auto& times = command.kind == OperationKind::kBackward ? backward_ : forward_;
    return times[static_cast<size_t>(command.stage)];
  }

 private:
  std::vector<double> forward_;  // by stage
  std::vector<double> backward_;
};

// `Times`: CommandTimes for a measured step, TimelineEntry for a predicted one; by command.
template <typename Times>
Timeline TimelineOf(const FrameworkPlan& plan, const std::vector<Times>& times,
                    TimesWithoutCopies* alone) {
  Timeline timeline;
  for (size_t c = 0; c < plan.commands.size(); ++c) {
    const Interval interval = {times[c].start_seconds, times[c].end_seconds};
    if (Copies(plan.commands[c])) timeline.copies.push_back(interval);
    if (!Computes(plan.commands[c])) continue;
    timeline.computations.push_back({interval, alone->Of(plan.commands[c])});
  }
  return timeline;
}

// The median of the values that exist.
std::optional<double> MedianOfSome(const std::vector<std::optional<double>>& values) {
  std::vector<double> some;
  for (const std::optional<double>& value : values) {
    if (value.has_value()) some.push_back(*value);
  }
  return some.empty() ? std::nullopt : std::optional(MedianOf(std::move(some)));
}

// Traces steps under schedules with many copies.
class Traces {
 public:
  Traces(Lab* lab, Bench* bench, TimesWithoutCopies alone, Sheet* sheet)
      : lab_(*lab), bench_(*bench), alone_(std::move(alone)), sheet_(*sheet) {}

  absl::Status AddAll() {
    RETURN_IF_ERROR(Add("two streams", TwoStreamSchedule(bench_.chain())));
    RETURN_IF_ERROR(AddSolved("offload_greedy", 0.5));
    RETURN_IF_ERROR(AddSolved("pofo", 0.2));
    return AddSolved("auto", 0.2);
  }

 private:
  absl::Status AddSolved(const std::string& solver, double share) {
    ASSIGN_OR_RETURN(const auto solved, bench_.Solve(solver, bench_.BudgetOf(share)));
    const std::string name = absl::StrFormat("%s, %g %%", solver, 100 * share);
    if (solved.has_value()) return Add(name, solved->schedule);
    sheet_.Add({Words(bench_.model().name), Words(name), Words("no schedule")});
    return absl::OkStatus();
  }

  absl::Status Add(const std::string& name, const Schedule& schedule) {
    ASSIGN_OR_RETURN(const FrameworkPlan plan, bench_.PlanOf(schedule));
    std::vector<TimelineEntry> predicted;
    RETURN_IF_ERROR(Simulate(bench_.chain(), bench_.platform(), schedule, &predicted).status());
    std::vector<std::optional<double>> hidden;
    std::vector<std::optional<double>> beside;
    std::vector<std::optional<double>> apart;
    ASSIGN_OR_RETURN(const auto steps, bench_.session().Trace(plan, kRepeats));
    for (const MeasuredStep& step : steps) {
      const Timeline timeline = TimelineOf(plan, step.times, &alone_);
      hidden.push_back(HiddenShare(timeline));
      const ComputeLoss loss = LossOf(timeline);
      beside.push_back(loss.beside);
      apart.push_back(loss.apart);
    }
    sheet_.Add({Words(bench_.model().name), Words(name), Words(ExtraWorkOf(schedule)),
                Maybe<double>(Share, HiddenShare(TimelineOf(plan, predicted, &alone_))),
                Maybe<double>(Share, MedianOfSome(hidden)),
                Maybe<double>(Change, MedianOfSome(beside)),
                Maybe<double>(Change, MedianOfSome(apart))});
    const std::string file = absl::StrCat("trace-", bench_.model().name, "-",
                                          name.substr(0, name.find_first_of(" ,")), ".json");
    return WriteFile(lab_.PathOf(file), TraceJson(plan, steps.back(), predicted));
  }

  Lab& lab_;
  Bench& bench_;
  TimesWithoutCopies alone_;
  Sheet& sheet_;
};

}  // namespace

absl::Status Overlapped(Lab* lab) {
  RETURN_IF_ERROR(MeasureLink(lab));
  Sheet losses(
      {"network", "plain step", "copies to the host", "copies to the device", "both ways"});
  Sheet hidden({"network", "schedule", "copies", "hidden, predicted", "hidden, measured",
                "computations beside copies", "computations apart"});
  for (const Model& model : lab->models) {
    ASSIGN_OR_RETURN(const auto bench, Bench::Open(model, &lab->device, {.steps = lab->steps}));
    RETURN_IF_ERROR(bench->Profile());
    {
      ASSIGN_OR_RETURN(const auto load,
                       LinkLoad::Create(lab->device.agent.get(), StepDuringCopies::kBytes));
      RETURN_IF_ERROR(StepDuringCopies(lab, bench.get(), load.get()).AddTo(&losses));
    }
    ASSIGN_OR_RETURN(TimesWithoutCopies alone, TimesWithoutCopies::Measure(bench.get()));
    RETURN_IF_ERROR(Traces(lab, bench.get(), std::move(alone), &hidden).AddAll());
  }
  RETURN_IF_ERROR(
      lab->Publish(lab->NameOf("overlapped-loss"),
                   "Overlapped: what a plain step loses to copies that run all the while", losses,
                   {absl::StrFormat("Medians of %d steps.", lab->steps)}));
  return lab->Publish(
      lab->NameOf("overlapped"), "Overlapped: the share of copy time that computations hide",
      hidden,
      {absl::StrFormat(
          "Medians of %d traced steps. The last two columns: by how much forwards and backwards "
          "that have copies beside them for half of their time or more take longer than in a step "
          "that copies nothing, and those that have none.",
          kRepeats)});
}

}  // namespace stowage
