#include "client/lib/saved_plan/plan_difference.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "solver/base/units.h"
#include "solver/model/chain.h"

namespace stowage {
namespace {

// Keeps the first difference.
class Comparison {
 public:
  // Numbers and texts.
  template <typename Value>
  void Compare(absl::string_view field, const Value& made_for, const Value& now) {
    if (made_for != now) Differ(field, absl::StrCat(made_for), absl::StrCat(now));
  }
  void CompareBytes(absl::string_view field, int64_t made_for, int64_t now) {
    if (made_for == now) return;
    const bool alike = FormatBytes(made_for) == FormatBytes(now);
    Differ(field, alike ? absl::StrCat(made_for, " B") : FormatBytes(made_for),
           alike ? absl::StrCat(now, " B") : FormatBytes(now));
  }
  void Differ(absl::string_view field, absl::string_view made_for, absl::string_view now) {
    if (text_.empty()) text_ = absl::StrCat(field, " ", made_for, ", now ", now);
  }

  bool found() const { return !text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string NameOf(const SolveRequest& request) {
  return request.solver.empty() ? "auto" : request.solver;
}

std::string NameOf(const Chain& chain, int l) {
  if (l > chain.length()) return "the loss's";
  const std::string& name = chain.stage(l).name;
  return absl::StrCat("stage ", l, name.empty() ? "" : absl::StrCat(" (", name, ")"), "'s");
}

void CompareOptions(const SolveOptions& made_for, const SolveOptions& now, Comparison* comparison) {
  // One name a field: a field too few or too many does not compile.
  const auto& [slots, segments, precision, rounding_loss, time_budget, use_cache] = made_for;
  comparison->Compare("memory_slots", slots, now.memory_slots);
  comparison->Compare("segments", segments, now.segments);
  comparison->Compare("time_precision", precision, now.time_precision);
  comparison->Compare("report_rounding_loss", rounding_loss, now.report_rounding_loss);
  comparison->Compare("time_budget_seconds", time_budget, now.time_budget_seconds);
  comparison->Compare("use_cache", use_cache, now.use_cache);
}

Stage WithoutNameAndTimes(Stage stage) {
  stage.name.clear();
  stage.forward_seconds = 0;
  stage.backward_seconds = 0;
  stage.replay_seconds.reset();
  for (SaveOption& option : stage.save_options) {
    option.name.clear();
    option.backward_seconds = 0;
  }
  if (stage.graph.has_value()) {
    stage.graph->forward_seconds = 0;
    stage.graph->backward_seconds = 0;
  }
  return stage;
}

void CompareStages(const Chain& made_for, const Chain& now, int l, Comparison* comparison) {
  const Stage& one = made_for.stage(l);
  const Stage& other = now.stage(l);
  const auto bytes = [&](absl::string_view field, int64_t then_bytes, int64_t now_bytes) {
    if (then_bytes == now_bytes) return;
    comparison->CompareBytes(absl::StrCat(NameOf(now, l), " ", field), then_bytes, now_bytes);
  };
  bytes("output_bytes", one.output_bytes, other.output_bytes);
  bytes("saved_bytes", one.saved_bytes, other.saved_bytes);
  bytes("gradient_bytes", made_for.gradient_bytes(l), now.gradient_bytes(l));
  bytes("forward_overhead_bytes", one.forward_overhead_bytes, other.forward_overhead_bytes);
  bytes("save_overhead_bytes", one.SaveOverheadBytes(0), other.SaveOverheadBytes(0));
  bytes("backward_overhead_bytes", one.backward_overhead_bytes, other.backward_overhead_bytes);
  if (!comparison->found() && WithoutNameAndTimes(one) != WithoutNameAndTimes(other)) {
    comparison->Differ(NameOf(now, l), "former properties", "others");
  }
}

void CompareChains(const Chain& made_for, const Chain& now, Comparison* comparison) {
  comparison->Compare("stages", made_for.length(), now.length());
  comparison->CompareBytes("input_bytes", made_for.input_bytes, now.input_bytes);
  comparison->CompareBytes("input_gradient_bytes", made_for.gradient_bytes(0),
                           now.gradient_bytes(0));
  for (int l = 1; l <= now.length() + 1 && !comparison->found(); ++l) {
    CompareStages(made_for, now, l, comparison);
  }
}

}  // namespace

bool UsesLink(const Schedule& schedule) {
  return std::any_of(
      schedule.operations.begin(), schedule.operations.end(),
      [](const Operation& operation) { return operation.kind == OperationKind::kOffload; });
}

std::string PlanDifference(const SolveRequest& made_for, const SolveRequest& now,
                           const Schedule& schedule) {
  Comparison comparison;
  comparison.Compare("solver", NameOf(made_for), NameOf(now));
  comparison.CompareBytes("memory", made_for.platform.memory_bytes, now.platform.memory_bytes);
  CompareOptions(made_for.options, now.options, &comparison);
  if (UsesLink(schedule)) {
    comparison.CompareBytes("host memory", made_for.platform.host_memory_bytes,
                            now.platform.host_memory_bytes);
  } else if (now.platform.has_link() && !made_for.platform.has_link()) {
    comparison.Differ("a device", "without a link to the host", "there is one");
  }
  CompareChains(made_for.chain, now.chain, &comparison);
  return comparison.text();
}

}  // namespace stowage
