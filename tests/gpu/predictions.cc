// Compares predicted and measured step times and peaks.
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

constexpr std::array<double, 4> kFourShares = {0.25, 0.4, 0.6, 0.8};
// More runs than in a job, since every prediction depends on these times.
const ProfileOptions kProfile = {.warmups = 2, .repeats = 11};

// The schedules of one solver. auto may copy concurrently with computations, rotor never copies.
struct SolverResults {
  std::string solver;
  std::vector<PredictedAndMeasured> seconds = {};
  std::vector<PredictedAndMeasured> bytes = {};
};

class PredictionsExperiment {
 public:
  explicit PredictionsExperiment(Lab* lab) : lab_(*lab) {}

  absl::Status Run() {
    for (const Model& model : lab_.models) {
      ASSIGN_OR_RETURN(const auto bench, Bench::Open(model, &lab_.device,
                                                     {.steps = lab_.steps, .profile = kProfile}));
      RETURN_IF_ERROR(bench->Profile());
      for (SolverResults& results : results_) {
        for (const double share : kFourShares) {
          RETURN_IF_ERROR(Measure(bench.get(), &results, share));
        }
      }
    }
    std::vector<std::string> remarks;
    for (const SolverResults& results : results_) remarks.push_back(Summary(results));
    return lab_.Publish(
        lab_.NameOf("predictions"),
        absl::StrCat("Predicted against measured, medians of ", lab_.steps, " steps"), sheet_,
        remarks);
  }

 private:
  absl::Status Measure(Bench* bench, SolverResults* results, double share) {
    const int64_t budget = bench->BudgetOf(share);
    ASSIGN_OR_RETURN(const auto solved, bench->Solve(results->solver, budget));
    std::vector<Cell> row = {Words(bench->model().name), Words(results->solver), Share(share),
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
    results->seconds.push_back(seconds);
    results->bytes.push_back(bytes);
    for (Cell& cell :
         std::vector<Cell>{Words(absl::StrCat(solved->solver, ": ", ExtraWorkOf(solved->schedule))),
                           Duration(seconds.predicted), Duration(seconds.measured),
                           Change(seconds.Error()), Size(trained.predicted.peak_memory_bytes),
                           Size(trained.measured.peak_bytes), Change(bytes.Error())}) {
      row.push_back(std::move(cell));
    }
    sheet_.Add(std::move(row));
    return absl::OkStatus();
  }

  static std::string Summary(const SolverResults& results) {
    const Errors seconds = ErrorsOf(results.seconds);
    const Errors bytes = ErrorsOf(results.bytes);
    return absl::StrFormat(
        "%s, absolute errors over %d schedules: step time %.1f %% mean, %.1f %% worst; peak %.1f "
        "%% mean, %.1f %% worst.",
        results.solver, results.seconds.size(), 100 * seconds.mean, 100 * seconds.worst,
        100 * bytes.mean, 100 * bytes.worst);
  }

  Lab& lab_;
  std::array<SolverResults, 2> results_ = {SolverResults{"auto"}, SolverResults{"rotor"}};
  Sheet sheet_{{"network", "solver", "budget", "bytes", "schedule", "predicted", "measured",
                "time error", "predicted peak", "measured peak", "peak error"}};
};

}  // namespace

absl::Status Predictions(Lab* lab) { return PredictionsExperiment(lab).Run(); }

}  // namespace stowage
