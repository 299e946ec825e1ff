// The largest batch that trains in a device's memory, without and with schedules.
#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/torch/base/torch_guarded.h"
#include "client/torch/profile/device_budget.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "tests/gpu/bench.h"
#include "tests/gpu/figures/batch_search.h"
#include "tests/gpu/lab.h"
#include "tests/gpu/memory_limit.h"

namespace stowage {
namespace {

constexpr double kMaxOverhead = 0.2;
constexpr int kMomenta = 1;  // the optimizer's numbers for each trained number
// Shares of the limit reserved for fragmentation. If a training runs out of memory with the first,
// the second is used.
constexpr std::array<double, 2> kMargins = {0.02, 0.1};

// Relative, of the batch.
double ResolutionOf(const Lab& lab) { return lab.coarse ? 1.0 / 8 : 1.0 / 16; }

// Fewer than for other figures, since a search measures many batches.
int SearchSteps(const Lab& lab) { return std::max(lab.coarse ? 3 : 5, lab.steps / 4); }

// The training of one batch.
struct Trial {
  double samples_per_second = 0;  // 0: it does not fit
  int64_t peak_bytes = 0;
  std::string schedule = "does not fit";
};

// The search for one network.
class Batches {
 public:
  Batches(Lab* lab, const Model& model, Sheet* trials)
      : lab_(*lab), model_(model), trials_(*trials) {}

  absl::Status AddTo(Sheet* sheet) {
    ASSIGN_OR_RETURN(
        const int plain, LargestBatch({.resolution = ResolutionOf(lab_)}, [&](int batch) {
          return Trains({"plain", batch, 0}, [](Bench* b) { return TrainWithoutSchedule(b); });
        }));
    std::vector<Cell> row = {Words(model_.name), Size(lab_.memory_limit), Count(plain)};
    if (plain == 0) {
      sheet->Add(std::move(row));
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(ConfirmPlain());
    const double enough = fastest_.samples_per_second / (1 + kMaxOverhead);
    RETURN_IF_ERROR(
        LargestBatch({.first = plain, .resolution = ResolutionOf(lab_)}, [&](int batch) {
          return Trains({"auto", batch, enough}, [&](Bench* b) { return TrainUnderAuto(b); });
        }).status());
    row.push_back(SamplesPerSecond(fastest_.samples_per_second));
    RETURN_IF_ERROR(AddConfirmed(plain, enough, &row));
    sheet->Add(std::move(row));
    return absl::OkStatus();
  }

 private:
  using Train = std::function<absl::StatusOr<Trial>(Bench* bench)>;

  struct Fastest {
    int batch = 0;
    double samples_per_second = 0;
  };
  struct Attempt {
    std::string way;  // "plain", "auto"
    int batch = 0;
    double min_samples_per_second = 0;  // exclusive
  };

  absl::Status ConfirmPlain() {
    ASSIGN_OR_RETURN(const Trial trial, Try(fastest_.batch, lab_.steps, [](Bench* bench) {
                       return TrainWithoutSchedule(bench);
                     }));
    fastest_.samples_per_second = trial.samples_per_second;
    return absl::OkStatus();
  }

  // Repeats the largest batches with as many steps as other figures, until one is fast enough.
  absl::Status AddConfirmed(int plain, double enough, std::vector<Cell>* row) {
    for (auto batch = trained_.rbegin(); batch != trained_.rend(); ++batch) {
      ASSIGN_OR_RETURN(const Trial trial, Try(*batch, lab_.steps,
                                              [&](Bench* bench) { return TrainUnderAuto(bench); }));
      if (trial.samples_per_second < enough) continue;
      row->insert(row->end(),
                  {Count(*batch), SamplesPerSecond(trial.samples_per_second),
                   Change(fastest_.samples_per_second / trial.samples_per_second - 1),
                   Words(trial.schedule),
                   Words(absl::StrFormat("%.2f", static_cast<double>(*batch) / plain))});
      return absl::OkStatus();
    }
    row->push_back(Count(0));  // no batch is fast enough, not even plain training's largest
    return absl::OkStatus();
  }

  // Whether a batch trains fast enough; records the trial.
  absl::StatusOr<bool> Trains(const Attempt& attempt, const Train& train) {
    const bool is_plain = attempt.way == "plain";
    ASSIGN_OR_RETURN(const Trial trial, Try(attempt.batch, SearchSteps(lab_), train));
    const double rate = trial.samples_per_second;
    trials_.Add({Words(model_.name), Words(attempt.way), Count(attempt.batch),
                 SamplesPerSecond(rate), Size(trial.peak_bytes), Words(trial.schedule)});
    absl::PrintF("%s, %s: batch %d, %.2f samples/s, %s\n", model_.name, attempt.way, attempt.batch,
                 rate, trial.schedule);
    const bool trains = rate > attempt.min_samples_per_second;
    if (is_plain && rate > fastest_.samples_per_second) fastest_ = {attempt.batch, rate};
    if (trains && !is_plain) trained_.insert(attempt.batch);
    return trains;
  }

  // Trains one batch in a new session. A failure is a trial, not an error.
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
    (void)lab_.device.agent->Synchronize();  // the first error is the one reported
    if (absl::IsResourceExhausted(status)) return Trial();
    // Libraries report their own lack of memory with other errors.
    return Trial{.schedule = absl::StrCat("failed: ", status.message())};
  }

  static Trial TrialOf(const Bench& bench, const TrainingMeasurement& measured,
                       std::string schedule) {
    return {bench.SamplesPerSecondOf(measured), measured.peak_bytes, std::move(schedule)};
  }

  static absl::StatusOr<Trial> TrainWithoutSchedule(Bench* bench) {
    ASSIGN_OR_RETURN(const TrainingMeasurement measured, bench->session().TrainWithoutSchedule());
    return TrialOf(*bench, measured, "plain");
  }

  absl::StatusOr<Trial> TrainUnderAuto(Bench* bench) const {
    const int64_t left = ActivationBytes(*bench);
    RETURN_IF_ERROR(bench->Profile());
    absl::StatusOr<Trial> trial = Trial();
    for (const double margin : kMargins) {
      const double reserved = margin * static_cast<double>(lab_.memory_limit);
      trial = TrainUnderAutoWithin(bench, left - static_cast<int64_t>(reserved));
      if (!absl::IsResourceExhausted(trial.status())) return trial;
    }
    return trial;
  }

  static absl::StatusOr<Trial> TrainUnderAutoWithin(Bench* bench, int64_t memory_bytes) {
    if (memory_bytes <= 0) return Trial();
    ASSIGN_OR_RETURN(const auto solved, bench->Solve("auto", memory_bytes));
    if (!solved.has_value()) return Trial();
    ASSIGN_OR_RETURN(const Trained trained, bench->TrainUnder(solved->schedule));
    return TrialOf(*bench, trained.measured,
                   absl::StrCat(solved->solver, ": ", ExtraWorkOf(solved->schedule)));
  }

  // The limit minus what is live now and what training will allocate beside activations.
  int64_t ActivationBytes(Bench& bench) const {
    const TorchStages stages(bench.session().network().stages, {.device = lab_.device.torch});
    const MemoryBudget budget = BudgetOf(stages, {.optimizer_copies = kMomenta});
    int64_t buffers = 0;  // the copies that recomputations read
    for (const at::Tensor& buffer : stages.Buffers()) {
      buffers += static_cast<int64_t>(buffer.nbytes());
    }
    return lab_.memory_limit - MemoryOf(lab_.device.torch).LiveBytes() - budget.gradient_bytes -
           budget.optimizer_bytes - buffers;
  }

  Lab& lab_;
  const Model& model_;
  Sheet& trials_;
  Fastest fastest_;        // of plain training
  std::set<int> trained_;  // batches that train fast enough under schedules
};

}  // namespace

absl::Status LargestBatches(Lab* lab) {
  Sheet trials({"network", "way", "batch", "samples/s", "peak", "schedule"});
  Sheet sheet({"network", "memory", "plain: largest batch", "plain: best samples/s",
               "auto: largest batch", "samples/s", "overhead", "schedule", "times larger"});
  for (const Model& model : lab->models) {
    RETURN_IF_ERROR(Batches(lab, model, &trials).AddTo(&sheet));
  }
  RETURN_IF_ERROR(
      lab->Publish(lab->NameOf("largest_batch-trials"), "Every batch that was tried", trials, {}));
  return lab->Publish(
      lab->NameOf("largest_batch"),
      absl::StrFormat("The largest batch at less than %g %% overhead", 100 * kMaxOverhead), sheet,
      {absl::StrFormat("Memory: all that LibTorch may take, weights included. Overhead: of a "
                       "sample's time, over that of plain training's best batch. Found by doubling "
                       "and bisection to 1/%g, with medians of %d steps; the figures beside the "
                       "answer are medians of %d.",
                       1 / ResolutionOf(*lab), SearchSteps(*lab), lab->steps)});
}

}  // namespace stowage
