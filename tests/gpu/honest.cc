// Step times and peaks as predicted, and as measured.
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "solver/base/status_macros.h"
#include "tests/gpu/bench.h"
#include "tests/gpu/figures/comparisons.h"
#include "tests/gpu/lab.h"

namespace stowage {
namespace {

constexpr std::array<double, 4> kShares = {0.25, 0.4, 0.6, 0.8};
// Times that every prediction rests on: worth more runs than a job would make.
constexpr ProfileOptions kProfile = {.warmups = 2, .repeats = 11};

// Of the schedules of one solver. The two differ in what may go wrong: copies beside computations.
struct Asked {
  std::string solver;
  std::vector<PredictedAndMeasured> seconds = {};
  std::vector<PredictedAndMeasured> bytes = {};
};

class Experiment {
 public:
  explicit Experiment(Lab* lab) : lab_(*lab) {}

  absl::Status Run() {
    for (const Model& model : lab_.models) {
      ASSIGN_OR_RETURN(const auto bench, Bench::Open(model, &lab_.device,
                                                     {.steps = lab_.steps, .profile = kProfile}));
      RETURN_IF_ERROR(bench->Profile());
      for (Asked& asked : asked_) {
        for (const double share : kShares) RETURN_IF_ERROR(Measure(bench.get(), &asked, share));
      }
    }
    std::vector<std::string> remarks;
    for (const Asked& asked : asked_) remarks.push_back(Summary(asked));
    return lab_.Publish(
        lab_.NameOf("honest"),
        absl::StrCat("Honest: predicted against measured, medians of ", lab_.steps, " steps"),
        sheet_, remarks);
  }

 private:
  absl::Status Measure(Bench* bench, Asked* asked, double share) {
    const int64_t budget = bench->BudgetOf(share);
    ASSIGN_OR_RETURN(const auto solved, bench->Solve(asked->solver, budget));
    std::vector<Cell> row = {Words(bench->model().name), Words(asked->solver), Share(share),
                             Size(budget)};
    if (!solved.has_value()) {
      row.push_back(Words("no schedule"));
      sheet_.Add(std::move(row));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const Trained trained, bench->TrainUnder(solved->schedule));
    const PredictedAndMeasured seconds = {trained.predicted.makespan_seconds,
                                          trained.measured.step_seconds};
    const PredictedAndMeasured bytes = {static_cast<double>(trained.predicted.peak_memory_bytes),
                                        static_cast<double>(trained.measured.peak_bytes)};
    asked->seconds.push_back(seconds);
    asked->bytes.push_back(bytes);
    for (Cell& cell :
         std::vector<Cell>{Words(absl::StrCat(solved->solver, ": ", WorkOf(solved->schedule))),
                           Duration(seconds.predicted), Duration(seconds.measured),
                           Change(seconds.Error()), Size(trained.predicted.peak_memory_bytes),
                           Size(trained.measured.peak_bytes), Change(bytes.Error())}) {
      row.push_back(std::move(cell));
    }
    sheet_.Add(std::move(row));
    return absl::OkStatus();
  }

  static std::string Summary(const Asked& asked) {
    const Errors seconds = ErrorsOf(asked.seconds);
    const Errors bytes = ErrorsOf(asked.bytes);
    return absl::StrFormat(
        "%s, absolute errors over %d schedules: step time %.1f %% mean, %.1f %% worst; peak %.1f "
        "%% mean, %.1f %% worst.",
        asked.solver, asked.seconds.size(), 100 * seconds.mean, 100 * seconds.worst,
        100 * bytes.mean, 100 * bytes.worst);
  }

  Lab& lab_;
  std::array<Asked, 2> asked_ = {Asked{"auto"}, Asked{"rotor"}};
  Sheet sheet_{{"network", "solver", "budget", "bytes", "schedule", "predicted", "measured",
                "time error", "predicted peak", "measured peak", "peak error"}};
};

}  // namespace

absl::Status Honest(Lab* lab) { return Experiment(lab).Run(); }

}  // namespace stowage
