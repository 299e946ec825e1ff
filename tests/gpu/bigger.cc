// The largest batch that trains in a device's memory: plainly, and under schedules.
#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/torch/torch_guarded.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "tests/gpu/bench.h"
#include "tests/gpu/figures/batch_search.h"
#include "tests/gpu/lab.h"
#include "tests/gpu/memory_limit.h"

namespace stowage {
namespace {

constexpr double kMostOverhead = 0.2;
constexpr double kResolution = 1.0 / 16;
constexpr int kMomenta = 1;  // numbers that the optimizer keeps for each that is trained
// Of the limit, for what the allocator cannot use: where the first is too little, the second is
// tried.
constexpr std::array<double, 2> kMargins = {0.02, 0.1};

// Fewer than for other figures: a search asks about many batches.
int SearchSteps(const Lab& lab) { return std::max(5, lab.steps / 4); }

// One batch, tried.
struct Trial {
  double rate = 0;  // samples a second; 0: it does not fit
  int64_t peak_bytes = 0;
  std::string schedule = "does not fit";
};

class Batches {
 public:
  Batches(Lab* lab, const Model& model, Sheet* trials)
      : lab_(*lab), model_(model), trials_(*trials) {}

  absl::Status AddTo(Sheet* sheet) {
    ASSIGN_OR_RETURN(const int plain, LargestBatch({.resolution = kResolution}, [&](int batch) {
                       return Trains("plain", batch, 0, [&](Bench* b) { return Plainly(b); });
                     }));
    std::vector<Cell> row = {Words(model_.name), Size(lab_.memory_limit), Count(plain)};
    if (plain == 0) {
      sheet->Add(std::move(row));
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(ConfirmPlain());
    const double enough = fastest_.rate / (1 + kMostOverhead);
    RETURN_IF_ERROR(LargestBatch({.first = plain, .resolution = kResolution}, [&](int batch) {
                      return Trains("auto", batch, enough, [&](Bench* b) { return Ours(b); });
                    }).status());
    row.push_back(SamplesPerSecond(fastest_.rate));
    RETURN_IF_ERROR(AddConfirmed(plain, enough, &row));
    sheet->Add(std::move(row));
    return absl::OkStatus();
  }

 private:
  using Train = std::function<absl::StatusOr<Trial>(Bench* bench)>;

  struct Fastest {
    int batch = 0;
    double rate = 0;
  };

  absl::Status ConfirmPlain() {
    ASSIGN_OR_RETURN(const Trial trial,
                     Try(fastest_.batch, lab_.steps, [](Bench* bench) { return Plainly(bench); }));
    fastest_.rate = trial.rate;
    return absl::OkStatus();
  }

  // The largest batch that still trains fast enough with as many steps as other figures have.
  absl::Status AddConfirmed(int plain, double enough, std::vector<Cell>* row) {
    for (auto batch = trained_.rbegin(); batch != trained_.rend(); ++batch) {
      ASSIGN_OR_RETURN(const Trial trial,
                       Try(*batch, lab_.steps, [&](Bench* bench) { return Ours(bench); }));
      if (trial.rate < enough) continue;
      row->insert(row->end(),
                  {Count(*batch), SamplesPerSecond(trial.rate),
                   Change(fastest_.rate / trial.rate - 1), Words(trial.schedule),
                   Words(absl::StrFormat("%.2f", static_cast<double>(*batch) / plain))});
      return absl::OkStatus();
    }
    row->push_back(Count(0));  // not even plain training's largest
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Trains(const std::string& way, int batch, double enough,
                              const Train& train) {
    const bool plainly = way == "plain";
    ASSIGN_OR_RETURN(const Trial trial, Try(batch, SearchSteps(lab_), train));
    trials_.Add({Words(model_.name), Words(way), Count(batch), SamplesPerSecond(trial.rate),
                 Size(trial.peak_bytes), Words(trial.schedule)});
    absl::PrintF("%s, %s: batch %d, %.2f samples/s, %s\n", model_.name, way, batch, trial.rate,
                 trial.schedule);
    const bool trains = trial.rate > enough;
    if (plainly && trial.rate > fastest_.rate) fastest_ = {batch, trial.rate};
    if (trains && !plainly) trained_.insert(batch);
    return trains;
  }

  // With nothing left from the trial before.
  absl::StatusOr<Trial> Try(int batch, int steps, const Train& train) {
    Model model = model_;
    model.options.batch = batch;
    absl::StatusOr<Trial> trial;
    const absl::Status status = TorchGuarded([&]() -> absl::Status {
      const MemoryLimit limit(lab_.device, lab_.memory_limit);
      ASSIGN_OR_RETURN(const auto bench, Bench::Open(model, &lab_.device, {.steps = steps}));
      trial = train(bench.get());
      return trial.status();
    });
    if (status.ok()) return trial;
    (void)lab_.device.agent->Synchronize();  // what has failed has been said
    if (absl::IsResourceExhausted(status)) return Trial();
    // Libraries that find no memory for themselves have errors of their own.
    return Trial{.schedule = absl::StrCat("failed: ", status.message())};
  }

  static Trial TrialOf(const Bench& bench, const Measured& measured, std::string schedule) {
    return {bench.RateOf(measured), measured.peak_bytes, std::move(schedule)};
  }

  static absl::StatusOr<Trial> Plainly(Bench* bench) {
    ASSIGN_OR_RETURN(const Measured measured, bench->session().TrainPlainly());
    return TrialOf(*bench, measured, "plain");
  }

  absl::StatusOr<Trial> Ours(Bench* bench) const {
    const int64_t left = LeftForActivations(*bench);
    RETURN_IF_ERROR(bench->Profile());
    absl::StatusOr<Trial> trial = Trial();
    for (const double margin : kMargins) {
      const double reserved = margin * static_cast<double>(lab_.memory_limit);
      trial = OursWithin(bench, left - static_cast<int64_t>(reserved));
      if (!absl::IsResourceExhausted(trial.status())) return trial;
    }
    return trial;
  }

  static absl::StatusOr<Trial> OursWithin(Bench* bench, int64_t memory_bytes) {
    if (memory_bytes <= 0) return Trial();
    ASSIGN_OR_RETURN(const auto solved, bench->Solve("auto", memory_bytes));
    if (!solved.has_value()) return Trial();
    ASSIGN_OR_RETURN(const Trained trained, bench->TrainUnder(solved->schedule));
    return TrialOf(*bench, trained.measured,
                   absl::StrCat(solved->solver, ": ", WorkOf(solved->schedule)));
  }

  // Of the limit, beside what is live now and what training will add to it.
  int64_t LeftForActivations(Bench& bench) const {
    const TorchStages stages(bench.session().network().stages, {.device = lab_.device.torch});
    const MemoryBudget all = BudgetOf(stages, 0, 0, kMomenta);
    int64_t buffers = 0;  // and what recomputations read in their place
    for (const at::Tensor& buffer : stages.Buffers()) {
      buffers += static_cast<int64_t>(buffer.nbytes());
    }
    return lab_.memory_limit - MemoryOf(lab_.device.torch).LiveBytes() - all.gradients -
           all.optimizer - buffers;
  }

  Lab& lab_;
  const Model& model_;
  Sheet& trials_;
  Fastest fastest_;        // of plain training
  std::set<int> trained_;  // batches that do, under schedules
};

}  // namespace

absl::Status Bigger(Lab* lab) {
  Sheet trials({"network", "way", "batch", "samples/s", "peak", "schedule"});
  Sheet sheet({"network", "memory", "plain: largest batch", "plain: best samples/s",
               "auto: largest batch", "samples/s", "overhead", "schedule", "times larger"});
  for (const Model& model : lab->models) {
    RETURN_IF_ERROR(Batches(lab, model, &trials).AddTo(&sheet));
  }
  RETURN_IF_ERROR(
      lab->Publish(lab->NameOf("bigger-trials"), "Bigger: every batch that was tried", trials, {}));
  return lab->Publish(
      lab->NameOf("bigger"),
      absl::StrFormat("Bigger: the largest batch at less than %g %% overhead", 100 * kMostOverhead),
      sheet,
      {absl::StrFormat("Memory: all that LibTorch may take, weights included. Overhead: of a "
                       "sample's time, over that of plain training's best batch. Found by doubling "
                       "and bisection to 1/%g, with medians of %d steps; the figures beside the "
                       "answer are medians of %d.",
                       1 / kResolution, SearchSteps(*lab), lab->steps)});
}

}  // namespace stowage
