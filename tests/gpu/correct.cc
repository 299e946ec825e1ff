// Compares the gradients of training under every solver's schedules with those of plain training.
#include <ATen/ATen.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "solver/base/file.h"
#include "solver/base/status_macros.h"
#include "solver/solve/catalog.h"
#include "tests/gpu/bench.h"
#include "tests/gpu/lab.h"

namespace stowage {
namespace {

using Gradients = std::vector<at::Tensor>;

constexpr int kSteps = 3;
constexpr int kPlainRuns = 3;
// The noise is the largest of three differences only, so equal trainings may differ by somewhat
// more.
constexpr double kNoiseFactor = 2;

enum class Kernels { kUsual, kDeterministic };
enum class Modes { kEager, kMixed };  // of schedules

void Use(Kernels kernels) {
  const bool deterministic = kernels == Kernels::kDeterministic;
  at::globalContext().setDeterministicCuDNN(deterministic);
  // Kernels without a deterministic version only warn; the results show whether they matter.
  at::globalContext().setDeterministicAlgorithms(deterministic, /*warn_only=*/true);
}

bool IsSame(const Gradients& one, const Gradients& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const at::Tensor& a, const at::Tensor& b) {
                      return a.defined() == b.defined() && (!a.defined() || at::equal(a, b));
                    });
}

// The norm of the difference over the norm of `one`, with all gradients as one vector.
double Distance(const Gradients& one, const Gradients& other) {
  const auto square = [](const at::Tensor& tensor) {
    return std::pow(tensor.norm(2, at::kDouble).item<double>(), 2);
  };
  double difference = 0;
  double length = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    if (one[i].defined() != other[i].defined()) return HUGE_VAL;
    if (!one[i].defined()) continue;
    difference += square(one[i] - other[i]);
    length += square(one[i]);
  }
  return length > 0 ? std::sqrt(difference / length) : std::sqrt(difference);
}

// Several runs of plain training.
struct Plain {
  std::vector<Gradients> runs;
  double noise = 0;  // the largest distance between two of them
};

absl::StatusOr<Plain> RunPlain(Session* session) {
  Plain plain;
  for (int run = 0; run < kPlainRuns; ++run) {
    RETURN_IF_ERROR(session->TrainWithoutSchedule().status());
    Gradients gradients = session->Gradients();
    // Without gradients every comparison would succeed.
    if (gradients.empty()) return absl::InternalError("the network has no gradients");
    for (const Gradients& before : plain.runs) {
      if (IsSame(gradients, before)) continue;
      plain.noise = std::max(plain.noise, Distance(before, gradients));
    }
    plain.runs.push_back(std::move(gradients));
  }
  return plain;
}

// The distance to the nearest plain run; 0: equal bit by bit.
double DistanceTo(const Plain& plain, const Gradients& gradients) {
  double least = HUGE_VAL;
  for (const Gradients& run : plain.runs) {
    if (IsSame(run, gradients)) return 0;
    const double distance = Distance(run, gradients);  // NaN if a gradient has a NaN
    if (distance >= 0) least = std::min(least, std::max(distance, DBL_MIN));
  }
  return least;
}

// The results of one network's trainings with the same kernels.
struct Tally {
  int same = 0;       // equal bit by bit
  int alike = 0;      // within the noise
  int different = 0;  // neither
  double farthest = 0;
  std::vector<std::string> other_budgets = {};  // solvers without a schedule at the usual budget

  int trained() const { return same + alike + different; }
};

class CorrectExperiment {
 public:
  explicit CorrectExperiment(Lab* lab) : lab_(*lab) {}

  absl::Status Run() {
    for (const Model& model : lab_.models) {
      for (const Modes modes : {Modes::kEager, Modes::kMixed}) {
        RETURN_IF_ERROR(Visit(model, modes));
      }
    }
    Use(Kernels::kUsual);
    RETURN_IF_ERROR(WriteFile(lab_.PathOf(lab_.NameOf("correct-all") + ".csv"), all_.ToCsv()));
    const std::string verdict = absl::StrFormat(
        "Of %d trainings under schedules %d came to the gradients of plain training to the bit, %d "
        "within its noise, %d did not.",
        total_.trained(), total_.same, total_.alike, total_.different);
    RETURN_IF_ERROR(lab_.Publish(
        lab_.NameOf("correct"),
        absl::StrCat("Correct: gradients after ", kSteps, " steps against plain training"), sheet_,
        {absl::StrFormat("Budget: %g %%. Difference: the length of the difference of all gradients "
                         "over their length, to the nearest of %d plain runs; noise: the largest "
                         "between two of those; alike: at most %g times the noise. Every training: "
                         "correct-all.csv.",
                         100 * kShare, kPlainRuns, kNoiseFactor),
         verdict}));
    return total_.different == 0 ? absl::OkStatus() : absl::InternalError(verdict);
  }

 private:
  static constexpr double kShare = 0.5;

  // Halves the measured times of graph mode, so that schedules use it in any case.
  static void MakeGraphCheap(Chain* chain) {
    for (Stage& stage : chain->stages) {
      if (!stage.graph.has_value()) continue;
      stage.graph->forward_seconds /= 2;
      stage.graph->backward_seconds /= 2;
    }
  }

  absl::Status Visit(const Model& model, Modes modes) {
    const bool mixed = modes == Modes::kMixed;
    ASSIGN_OR_RETURN(const auto bench, Bench::Open(model, &lab_.device,
                                                   {.steps = kSteps - Session::kUnmeasured,
                                                    .profile = {.graph_mode = mixed}}));
    RETURN_IF_ERROR(bench->Profile());
    if (mixed) MakeGraphCheap(&bench->chain());
    for (const Kernels kernels : {Kernels::kUsual, Kernels::kDeterministic}) {
      Use(kernels);
      ASSIGN_OR_RETURN(const Plain plain, RunPlain(&bench->session()));
      Tally tally;
      for (const SolverInfo& solver : AllSolvers()) {
        const std::string name = solver.description.name;
        // Other solvers do not use graph mode.
        if (mixed && name != "auto" && name.find("mixed") == std::string::npos) continue;
        RETURN_IF_ERROR(Compare(bench.get(), name, plain, &tally));
      }
      AddTally({Words(model.name), Words(mixed ? "mixed" : "eager"),
                Words(kernels == Kernels::kUsual ? "usual" : "deterministic")},
               plain, tally);
    }
    return absl::OkStatus();
  }

  // `row`: network, modes, kernels.
  void AddTally(std::vector<Cell> row, const Plain& plain, const Tally& tally) {
    row.insert(row.end(),
               {Count(tally.trained()), Count(tally.same), Count(tally.alike),
                Count(tally.different), Difference(plain.noise), Difference(tally.farthest),
                Words(absl::StrJoin(tally.other_budgets, ", "))});
    sheet_.Add(std::move(row));
    total_.same += tally.same;
    total_.alike += tally.alike;
    total_.different += tally.different;
  }

  absl::Status Compare(Bench* bench, const std::string& solver, const Plain& plain, Tally* tally) {
    ASSIGN_OR_RETURN(auto solved, bench->Solve(solver, bench->BudgetOf(kShare)));
    if (!solved.has_value()) {
      ASSIGN_OR_RETURN(solved, bench->Solve(solver, bench->BudgetOf(1)));
      tally->other_budgets.push_back(solver + (solved.has_value() ? " at 100 %" : " never"));
      if (!solved.has_value()) return absl::OkStatus();
    }
    const auto trained = bench->TrainUnder(solved->schedule);
    std::vector<Cell> row = {Words(bench->model().name), Words(solver),
                             Words(ExtraWorkOf(solved->schedule))};
    if (trained.ok()) {
      const double distance = DistanceTo(plain, bench->session().Gradients());
      row.insert(row.end(), {Difference(distance), Difference(plain.noise),
                             Words(Judge(distance, plain.noise, tally)),
                             Words(absl::StrCat(trained->measured.traced.size(), " traced, ",
                                                trained->measured.as_block.size(), " blocks"))});
    } else {
      ++tally->different;
      row.insert(row.end(), {Cell(), Cell(), Words(std::string(trained.status().message()))});
    }
    all_.Add(std::move(row));
    return absl::OkStatus();
  }

  // Counts the training in `tally` and names its result. Deterministic kernels have no noise, so
  // that any difference counts.
  static const char* Judge(double distance, double noise, Tally* tally) {
    tally->farthest = std::max(tally->farthest, distance);
    if (distance == 0) return ++tally->same, "the same";
    if (distance <= kNoiseFactor * noise) return ++tally->alike, "alike";
    return ++tally->different, "DIFFERENT";
  }

  Lab& lab_;
  Sheet sheet_{{"network", "modes", "kernels", "schedules", "the same", "alike", "different",
                "noise", "largest difference", "solvers at other budgets"}};
  Sheet all_{{"network", "solver", "schedule", "difference", "noise", "gradients", "graph mode"}};
  Tally total_;
};

}  // namespace

absl::Status Correct(Lab* lab) { return CorrectExperiment(lab).Run(); }

}  // namespace stowage
