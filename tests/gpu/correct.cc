// Under schedules of every solver training comes to the gradients that plain training comes to.
#include <ATen/ATen.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/text/write_file.h"
#include "solver/base/status_macros.h"
#include "solver/solve/catalog.h"
#include "tests/gpu/bench.h"
#include "tests/gpu/lab.h"

namespace stowage {
namespace {

using Gradients = std::vector<at::Tensor>;

constexpr int kSteps = 3;
constexpr int kPlainRuns = 3;
// The noise is a sample, of three differences: what is alike may differ by somewhat more.
constexpr double kNoises = 2;

enum class Kernels { kUsual, kDeterministic };

void Use(Kernels kernels) {
  const bool deterministic = kernels == Kernels::kDeterministic;
  at::globalContext().setDeterministicCuDNN(deterministic);
  // Some have no deterministic twin that LibTorch knows of: it shows whether they are.
  at::globalContext().setDeterministicAlgorithms(deterministic, /*warn_only=*/true);
}

bool IsSame(const Gradients& one, const Gradients& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const at::Tensor& a, const at::Tensor& b) {
                      return a.defined() == b.defined() && (!a.defined() || at::equal(a, b));
                    });
}

// Of all gradients as one vector: the length of the difference over the length of the first.
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

// Plain training, several times.
struct Plain {
  std::vector<Gradients> runs;
  double noise = 0;  // the largest distance between two of them
};

absl::StatusOr<Plain> TrainPlainly(Session* session) {
  Plain plain;
  for (int run = 0; run < kPlainRuns; ++run) {
    RETURN_IF_ERROR(session->TrainPlainly().status());
    Gradients gradients = session->Gradients();
    // Nothing would be the same as nothing.
    if (gradients.empty()) return absl::InternalError("the network has no gradients");
    for (const Gradients& before : plain.runs) {
      if (IsSame(gradients, before)) continue;
      plain.noise = std::max(plain.noise, Distance(before, gradients));
    }
    plain.runs.push_back(std::move(gradients));
  }
  return plain;
}

// To the nearest of the plain runs; 0: the same to the bit.
double DistanceTo(const Plain& plain, const Gradients& gradients) {
  double least = HUGE_VAL;
  for (const Gradients& run : plain.runs) {
    if (IsSame(run, gradients)) return 0;
    const double distance = Distance(run, gradients);  // not a number where a gradient is none
    if (distance >= 0) least = std::min(least, std::max(distance, DBL_MIN));
  }
  return least;
}

// How the trainings of one network came out, with the same kernels.
struct Tally {
  int same = 0;    // to the bit
  int alike = 0;   // within the noise
  int others = 0;  // neither
  double farthest = 0;
  std::vector<std::string> elsewhere = {};  // solvers that got another budget, or none would do

  int trained() const { return same + alike + others; }
};

class Experiment {
 public:
  explicit Experiment(Lab* lab) : lab_(*lab) {}

  absl::Status Run() {
    for (const Model& model : lab_.models) {
      for (const bool graph : {false, true}) RETURN_IF_ERROR(Visit(model, graph));
    }
    Use(Kernels::kUsual);
    RETURN_IF_ERROR(WriteFile(lab_.PathOf(lab_.NameOf("correct-all") + ".csv"), all_.ToCsv()));
    const std::string verdict = absl::StrFormat(
        "Of %d trainings under schedules %d came to the gradients of plain training to the bit, %d "
        "within its noise, %d did not.",
        total_.trained(), total_.same, total_.alike, total_.others);
    RETURN_IF_ERROR(lab_.Publish(
        lab_.NameOf("correct"),
        absl::StrCat("Correct: gradients after ", kSteps, " steps against plain training"), sheet_,
        {absl::StrFormat("Budget: %g %%. Difference: the length of the difference of all gradients "
                         "over their length, to the nearest of %d plain runs; noise: the largest "
                         "between two of those; alike: at most %g times the noise. Every training: "
                         "correct-all.csv.",
                         100 * kShare, kPlainRuns, kNoises),
         verdict}));
    return total_.others == 0 ? absl::OkStatus() : absl::InternalError(verdict);
  }

 private:
  static constexpr double kShare = 0.5;

  // Graph mode at half of its price, so that schedules mix it in: here it need not pay.
  static void MakeGraphCheap(Chain* chain) {
    for (Stage& stage : chain->stages) {
      if (!stage.graph.has_value()) continue;
      stage.graph->forward_seconds /= 2;
      stage.graph->backward_seconds /= 2;
    }
  }

  absl::Status Visit(const Model& model, bool graph) {
    ASSIGN_OR_RETURN(const auto bench, Bench::Open(model, &lab_.device,
                                                   {.steps = kSteps - Session::kUnmeasured,
                                                    .profile = {.graph_mode = graph}}));
    RETURN_IF_ERROR(bench->Profile());
    if (graph) MakeGraphCheap(&bench->chain());
    for (const Kernels kernels : {Kernels::kUsual, Kernels::kDeterministic}) {
      Use(kernels);
      ASSIGN_OR_RETURN(const Plain plain, TrainPlainly(&bench->session()));
      Tally tally;
      for (const SolverInfo& solver : AllSolvers()) {
        const std::string name = solver.description.name;
        // The others do not know of graph mode.
        if (graph && name != "auto" && name.find("mixed") == std::string::npos) continue;
        RETURN_IF_ERROR(Compare(bench.get(), name, plain, &tally));
      }
      AddTally(model, graph, kernels, plain, tally);
    }
    return absl::OkStatus();
  }

  void AddTally(const Model& model, bool graph, Kernels kernels, const Plain& plain,
                const Tally& tally) {
    sheet_.Add({Words(model.name), Words(graph ? "mixed" : "eager"),
                Words(kernels == Kernels::kUsual ? "usual" : "deterministic"),
                Count(tally.trained()), Count(tally.same), Count(tally.alike), Count(tally.others),
                Difference(plain.noise), Difference(tally.farthest),
                Words(absl::StrJoin(tally.elsewhere, ", "))});
    total_.same += tally.same;
    total_.alike += tally.alike;
    total_.others += tally.others;
  }

  absl::Status Compare(Bench* bench, const std::string& solver, const Plain& plain, Tally* tally) {
    ASSIGN_OR_RETURN(auto solved, bench->Solve(solver, bench->BudgetOf(kShare)));
    if (!solved.has_value()) {
      ASSIGN_OR_RETURN(solved, bench->Solve(solver, bench->BudgetOf(1)));
      tally->elsewhere.push_back(solver + (solved.has_value() ? " at 100 %" : " never"));
      if (!solved.has_value()) return absl::OkStatus();
    }
    const auto trained = bench->TrainUnder(solved->schedule);
    std::vector<Cell> row = {Words(bench->model().name), Words(solver),
                             Words(WorkOf(solved->schedule))};
    if (trained.ok()) {
      const double distance = DistanceTo(plain, bench->session().Gradients());
      row.insert(row.end(), {Difference(distance), Difference(plain.noise),
                             Words(Judge(distance, plain.noise, tally)),
                             Words(absl::StrCat(trained->measured.traced.size(), " traced, ",
                                                trained->measured.blocks.size(), " blocks"))});
    } else {
      ++tally->others;
      row.insert(row.end(), {Cell(), Cell(), Words(std::string(trained.status().message()))});
    }
    all_.Add(std::move(row));
    return absl::OkStatus();
  }

  // Kernels that are deterministic leave no noise, and then no room for a difference.
  static const char* Judge(double distance, double noise, Tally* tally) {
    tally->farthest = std::max(tally->farthest, distance);
    if (distance == 0) return ++tally->same, "the same";
    if (distance <= kNoises * noise) return ++tally->alike, "alike";
    return ++tally->others, "OTHERS";
  }

  Lab& lab_;
  Sheet sheet_{{"network", "modes", "kernels", "schedules", "the same", "alike", "others", "noise",
                "largest difference", "solvers elsewhere"}};
  Sheet all_{{"network", "solver", "schedule", "difference", "noise", "gradients", "graph mode"}};
  Tally total_;
};

}  // namespace

absl::Status Correct(Lab* lab) { return Experiment(lab).Run(); }

}  // namespace stowage
