#include "client/torch/fit/shape_plan.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/torch/join/graph_mode.h"
#include "solver/base/quantile.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"

namespace stowage {
namespace {

constexpr size_t kMaxSamples = 1000;

// "2 of 8 stages recomputed, 1 offloaded".
std::string FatesText(const Explanation& explanation) {
  const auto count = [&](const auto& has) {
    return std::count_if(explanation.stages.begin(), explanation.stages.end(), has);
  };
  return absl::StrCat(count([](const StageFate& fate) { return fate.recomputed > 0; }), " of ",
                      explanation.stages.size(), " stages recomputed, ",
                      count([](const StageFate& fate) { return fate.offloaded > 0; }),
                      " offloaded");
}

// "solved here in 3.1 ms".
std::string SourceText(const PlannedAnswer& planned, const std::vector<std::string>& servers) {
  const std::string solved =
      absl::StrCat("in ", FormatSeconds(planned.result.origin.solve_seconds));
  switch (planned.source) {
    case PlanSource::kPlanFile:
      return "from the plan cache";
    case PlanSource::kServer:  // where there are several, which of them it was is not known here
      return absl::StrCat("from ", absl::StrJoin(servers, " or "), ", solved ", solved);
    case PlanSource::kLocal:
      break;
  }
  return absl::StrCat("solved here ", solved);
}

std::string PlainText(const ShapePlan& plan) {
  if (plan.plain_bytes.has_value()) return FormatBytes(*plan.plain_bytes);
  return absl::StrCat("does not fit; a schedule that stores everything takes ",
                      FormatBytes(StoreAllPeakBytes(plan.chain)));
}

std::string PlanText(const ShapePlan& plan, const std::vector<std::string>& servers) {
  if (plan.commands == nullptr) return "plain training, which fits, with no host memory";
  const Answer& answer = *plan.planned->result.answer;
  const Prediction& predicted = plan.commands->prediction;
  const std::string source =
      plan.borrowed_from.empty()
          ? SourceText(*plan.planned, servers)
          : absl::StrCat("that of input ", plan.borrowed_from,
                         plan.pending == nullptr ? "" : " until its own is found");
  return absl::StrCat(answer.solver, ", ", source, ": ", FatesText(answer.explanation),
                      "; a step takes ", FormatSeconds(predicted.makespan_seconds), " and ",
                      FormatBytes(predicted.peak_memory_bytes), ", with ",
                      FormatBytes(plan.host_bytes()), " of host memory");
}

// Also how the units in graph mode ran.
std::string VerifiedText(const ShapePlan& plan) {
  if (plan.scheduled == nullptr) return "";
  std::string text;
  if (const int64_t verified = plan.scheduled->stages().verified_recomputations(); verified > 0) {
    text = absl::StrCat("; ", verified, " recomputations had the outputs of their first runs");
  }
  for (const TorchStage& stage : plan.scheduled->stages().stages()) {
    if (stage.unit == nullptr) continue;
    absl::StrAppend(&text, "; ", stage.name, " in graph mode ",
                    stage.unit->traced()
                        ? "by a trace"
                        : absl::StrCat("as a block: ", stage.unit->block_reason()));
  }
  return text;
}

}  // namespace

void StepSamples::Add(double seconds, int64_t peak_bytes, int64_t gradient_bytes) {
  if (seconds_.size() < kMaxSamples) {
    seconds_.push_back(seconds);
  } else {
    seconds_[static_cast<size_t>(count_) % kMaxSamples] = seconds;
  }
  ++count_;
  peak_bytes_ = std::max(peak_bytes_, peak_bytes);
  gradient_bytes_ = std::max(gradient_bytes_, gradient_bytes);
}

std::string StepSamples::Text() const {
  if (count_ == 0) return "no step yet";
  std::vector<double> sorted = seconds_;
  std::sort(sorted.begin(), sorted.end());
  return absl::StrCat(count_, count_ == 1 ? " step" : " steps", ", median ",
                      FormatSeconds(MedianOf(sorted)),
                      " (10 % to 90 %: ", FormatSeconds(QuantileOf(sorted, 0.1)), " to ",
                      FormatSeconds(QuantileOf(sorted, 0.9)), "), peak ", FormatBytes(peak_bytes_),
                      GradientsText());
}

std::string StepSamples::GradientsText() const {
  if (gradient_bytes_ == 0) return "";
  return absl::StrCat(" with up to ", FormatBytes(gradient_bytes_),
                      " of gradients of weights, which the budget does not include");
}

std::string SummaryOf(const ShapePlan& plan, const std::vector<std::string>& servers) {
  return absl::StrCat("input ", plan.shape, "\n  plain training  ", PlainText(plan),
                      "\n  budget          ", FormatBytes(plan.budget_bytes),
                      "\n  plan            ", PlanText(plan, servers), "\n");
}

std::string ReportOf(const ShapePlan& plan) {
  std::string text = absl::StrCat("input ", plan.shape, ": ", plan.steps.Text());
  if (plan.commands != nullptr) {
    const Prediction& predicted = plan.commands->prediction;
    absl::StrAppend(&text, "; predicted ", FormatSeconds(predicted.makespan_seconds), ", ",
                    FormatBytes(predicted.peak_memory_bytes));
  }
  absl::StrAppend(&text, "; host memory ", FormatBytes(plan.host_bytes()), VerifiedText(plan),
                  "\n");
  return text;
}

}  // namespace stowage
