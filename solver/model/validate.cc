#include "solver/model/validate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "solver/base/checked_math.h"
#include "solver/base/quote.h"
#include "solver/model/chain_units.h"

namespace stowage {
namespace {

// Longer than any training step, and small enough to keep every sum of times finite.
constexpr double kMaxSeconds = 1e9;
// Slower than any link; keeps every transfer time finite.
constexpr double kMinBytesPerSecond = 1e-6;
constexpr double kMaxBytesPerSecond = 1e18;

// Appends violations whose fields start with one path.
class Checker {
 public:
  Checker(std::string path, std::vector<FieldViolation>* out) : path_(std::move(path)), out_(out) {}

  void Add(absl::string_view field, absl::string_view problem) {
    out_->push_back({absl::StrCat(path_, field), std::string(problem)});
  }

  void Seconds(absl::string_view field, double value) {
    if (!std::isfinite(value) || value < 0 || value > kMaxSeconds) {
      Add(field,
          absl::StrCat("is ", value, "; it must be a number of seconds from 0 to ", kMaxSeconds));
    }
  }

  // Returns whether the size is valid.
  bool Bytes(absl::string_view field, int64_t value) {
    if (value >= 0 && value < kMaxTotalBytes) return true;
    Add(field, absl::StrCat("is ", value, "; it must be a number of bytes from 0 to below 2^62"));
    return false;
  }

  void Count(absl::string_view field, int value, int most) {
    if (value >= 0 && value <= most) return;
    Add(field, absl::StrCat("is ", value, "; it must be from 1 to ", most, ", or 0 for one"));
  }

  void Rate(absl::string_view field, double value) {
    if (value == 0) return;
    if (!(value >= kMinBytesPerSecond && value <= kMaxBytesPerSecond)) {
      Add(field, absl::StrCat("is ", value, "; it must be 0 (no transfer that way) or from ",
                              kMinBytesPerSecond, " to ", kMaxBytesPerSecond, " bytes a second"));
    }
  }

 private:
  std::string path_;
  std::vector<FieldViolation>* out_;
};

// Sums every size of the chain, or of what `of` says. Reports, once, the field at which the sum
// reaches the limit, so that no later code has to check its own sums for overflow.
class TotalBytes {
 public:
  explicit TotalBytes(absl::string_view of = "all sizes of the chain") : of_(of) {}

  void Add(Checker& checker, absl::string_view field, int64_t bytes) {
    if (exceeded_ || !checker.Bytes(field, bytes)) return;
    total_ = CheckedAdd(total_, bytes).value_or(kMaxTotalBytes);
    if (total_ < kMaxTotalBytes) return;
    exceeded_ = true;
    checker.Add(field, absl::StrCat("takes the sum of ", of_, " to 2^62 bytes or more"));
  }

  // An unset size counts as `otherwise`. If that is invalid, its own field has been reported.
  void AddOptional(Checker& checker, absl::string_view field, std::optional<int64_t> bytes,
                   int64_t otherwise) {
    if (bytes.has_value() || (otherwise >= 0 && otherwise < kMaxTotalBytes)) {
      Add(checker, field, bytes.value_or(otherwise));
    }
  }

  bool exceeded() const { return exceeded_; }

 private:
  const absl::string_view of_;
  int64_t total_ = 0;
  bool exceeded_ = false;
};

void CheckGraphCosts(const GraphCosts& graph, Checker& checker, TotalBytes& total) {
  checker.Seconds("graph.forward_seconds", graph.forward_seconds);
  checker.Seconds("graph.backward_seconds", graph.backward_seconds);
  total.Add(checker, "graph.saved_bytes", graph.saved_bytes);
  total.Add(checker, "graph.forward_overhead_bytes", graph.forward_overhead_bytes);
  total.Add(checker, "graph.backward_overhead_bytes", graph.backward_overhead_bytes);
}

// A forward that saves holds at any time what one that does not save holds, and more.
void CheckSaveOverhead(const Stage& stage, int k, TotalBytes& total, Checker& checker) {
  const std::optional<int64_t> overhead =
      k == 0 ? stage.save_overhead_bytes : stage.option(k).save_overhead_bytes;
  if (!overhead.has_value()) return;
  total.Add(checker, "save_overhead_bytes", *overhead);
  for (const int64_t bytes :
       {*overhead, stage.SavedBytes(k), stage.output_bytes, stage.forward_overhead_bytes}) {
    if (bytes < 0 || bytes >= kMaxTotalBytes) return;  // reported already
  }
  if (stage.SaveNeedBytes(k) >= stage.OutputNeedBytes()) return;
  checker.Add("save_overhead_bytes",
              absl::StrCat("is ", *overhead,
                           ", so that a forward that saves needs less than one "
                           "that does not; at least ",
                           stage.OutputNeedBytes() - stage.SavedBytes(k), " is possible"));
}

void CheckStage(const Stage& stage, std::string path, TotalBytes& total,
                std::vector<FieldViolation>* out) {
  Checker checker(std::move(path), out);
  checker.Seconds("forward_seconds", stage.forward_seconds);
  checker.Seconds("backward_seconds", stage.backward_seconds);
  total.Add(checker, "output_bytes", stage.output_bytes);
  total.Add(checker, "saved_bytes", stage.saved_bytes);
  total.AddOptional(checker, "gradient_bytes", stage.gradient_bytes, stage.output_bytes);
  total.Add(checker, "forward_overhead_bytes", stage.forward_overhead_bytes);
  total.Add(checker, "backward_overhead_bytes", stage.backward_overhead_bytes);
  if (stage.saved_bytes < stage.output_bytes) {
    checker.Add("saved_bytes", absl::StrCat("is ", stage.saved_bytes, ", less than output_bytes ",
                                            stage.output_bytes, ", which it must include"));
  }
  CheckSaveOverhead(stage, 0, total, checker);
  if (stage.graph.has_value()) CheckGraphCosts(*stage.graph, checker, total);
}

std::string StagePath(const Chain& chain, int l) {
  return l > chain.length() ? "chain.loss." : absl::StrCat("chain.stages[", l - 1, "].");
}

// A replay is a second forward, no longer than the first.
void CheckReplay(const Chain& chain, int l, Checker& checker) {
  const Stage& stage = chain.stage(l);
  if (!stage.replay_seconds.has_value()) return;
  checker.Seconds("replay_seconds", *stage.replay_seconds);
  if (l > chain.length()) checker.Add("replay_seconds", "is set; the loss runs once");
  if (stage.no_recompute) {
    checker.Add("replay_seconds", "is set, and so is no_recompute; leave out one of them");
  }
  if (*stage.replay_seconds > stage.forward_seconds) {
    checker.Add("replay_seconds",
                absl::StrCat("is ", *stage.replay_seconds, ", more than forward_seconds ",
                             stage.forward_seconds, "; leave it out"));
  }
}

// A way to save gains memory and costs time: solvers that know the stage's own way alone miss
// nothing else, and no schedule is faster than storing everything that way.
void CheckSaveOption(const Stage& stage, const SaveOption& option, TotalBytes& total,
                     Checker& checker) {
  checker.Seconds("backward_seconds", option.backward_seconds);
  total.Add(checker, "saved_bytes", option.saved_bytes);
  total.Add(checker, "backward_overhead_bytes", option.backward_overhead_bytes);
  if (option.saved_bytes < stage.output_bytes) {
    checker.Add("saved_bytes", absl::StrCat("is ", option.saved_bytes, ", less than output_bytes ",
                                            stage.output_bytes, ", which it must include"));
  }
  if (option.saved_bytes > stage.saved_bytes) {
    checker.Add("saved_bytes", absl::StrCat("is ", option.saved_bytes, ", more than the stage's ",
                                            stage.saved_bytes,
                                            "; make the way that saves the most the stage's own"));
  }
  if (option.backward_seconds < stage.backward_seconds) {
    checker.Add("backward_seconds",
                absl::StrCat("is ", option.backward_seconds, ", less than the stage's ",
                             stage.backward_seconds,
                             "; make the way of the quickest backward the stage's own"));
  }
}

// Names that exports write into settings and code.
void CheckNames(absl::string_view field, const std::vector<std::string>& names, Checker& checker) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) continue;
    checker.Add(absl::StrCat(field, "[", i, "]"), "is empty; leave it out");
    return;
  }
}

void CheckSaveOptions(const Chain& chain, int l, TotalBytes& total,
                      std::vector<FieldViolation>* out) {
  const Stage& stage = chain.stage(l);
  const std::string path = StagePath(chain, l);
  if (stage.last_option() > kMaxSaveOptions) {
    out->push_back({absl::StrCat(path, "save_options"),
                    absl::StrCat("has ", stage.last_option(), " entries; at most ", kMaxSaveOptions,
                                 " are allowed, so leave out those that differ "
                                 "little")});
    return;
  }
  for (int k = 1; k <= stage.last_option(); ++k) {
    Checker checker(absl::StrCat(path, "save_options[", k - 1, "]."), out);
    CheckSaveOption(stage, stage.option(k), total, checker);
    CheckSaveOverhead(stage, k, total, checker);
    CheckNames("kept", stage.option(k).kept, checker);
    CheckNames("rerun", stage.option(k).rerun, checker);
  }
}

// What a stage has that no solver of graph mode knows; null: nothing.
const char* FieldWithoutGraphMode(const Stage& stage) {
  if (stage.input_unread) return "input_unread";
  if (stage.replay_seconds.has_value()) return "replay_seconds";
  if (stage.save_overhead_bytes.has_value()) return "save_overhead_bytes";
  return stage.save_options.empty() ? nullptr : "save_options";
}

// Reports the first stage that has one of these fields.
void CheckNotInGraphMode(const Chain& chain, std::vector<FieldViolation>* out) {
  int graph = 0;  // the first stage with costs in graph mode
  for (int l = chain.length() + 1; l >= 1; --l) {
    if (chain.stage(l).graph.has_value()) graph = l;
  }
  for (int l = 1; graph > 0 && l <= chain.length() + 1; ++l) {
    const char* const field = FieldWithoutGraphMode(chain.stage(l));
    if (field == nullptr) continue;
    out->push_back({absl::StrCat(StagePath(chain, l), field),
                    absl::StrCat("is set, and ", StagePath(chain, graph),
                                 "graph is too; a chain has one or the other")});
    return;
  }
}

// Checks that all stages of the unit have graph costs or none has, and that what the unit saves
// includes its output. Requires: the sums of sizes do not overflow.
void CheckUnit(const Chain& chain, const Unit& unit, std::vector<FieldViolation>* out) {
  int64_t saved = 0;
  int with_costs = 0;
  for (int l = unit.first; l <= unit.last; ++l) {
    const std::optional<GraphCosts>& graph = chain.stage(l).graph;
    if (!graph.has_value()) continue;
    ++with_costs;
    saved += graph->saved_bytes;
  }
  if (with_costs == 0) return;
  const Stage& last = chain.stage(unit.last);
  for (int l = unit.first; with_costs <= unit.last - unit.first && l <= unit.last; ++l) {
    if (chain.stage(l).graph.has_value()) continue;
    out->push_back(
        {absl::StrCat(StagePath(chain, l), "graph"),
         absl::StrCat("is missing, and other stages of fusion_group ", Quoted(last.fusion_group),
                      " have it; give each of them costs, 0 where another's include them")});
    return;
  }
  if (saved >= last.output_bytes) return;
  const bool alone = unit.first == unit.last;
  out->push_back(
      {absl::StrCat(StagePath(chain, unit.last), "graph.saved_bytes"),
       absl::StrCat(alone ? "is " : "brings the saved bytes of the fusion group to ", saved,
                    ", less than output_bytes ", last.output_bytes, ", which it must include")});
}

// The loss has no group, every unit is consistent, and the stages of a group are neighbours:
// ChainUnits splits a group that is interrupted into several units of the same name.
void CheckGroups(const Chain& chain, std::vector<FieldViolation>* out) {
  if (!chain.loss.fusion_group.empty()) {
    out->push_back({"chain.loss.fusion_group", "is set; the loss runs by itself in graph mode"});
    return;
  }
  absl::flat_hash_map<absl::string_view, int> first;  // group -> its unit's first stage
  for (const Unit& unit : ChainUnits(chain)) {
    CheckUnit(chain, unit, out);
    const std::string& group = chain.stage(unit.first).fusion_group;
    if (group.empty()) continue;
    const auto [it, inserted] = first.try_emplace(group, unit.first);
    if (inserted) continue;
    out->push_back({absl::StrCat(StagePath(chain, unit.first), "fusion_group"),
                    absl::StrCat("is ", Quoted(group), ", as that of stages[", it->second - 1,
                                 "], with others between them; the stages of a group must be "
                                 "neighbours")});
  }
}

// Nonempty names are unique. Reports each later occurrence.
void CheckNames(const Chain& chain, std::vector<FieldViolation>* out) {
  absl::flat_hash_map<absl::string_view, int> first;  // name -> stage
  for (int l = 1; l <= chain.length() + 1; ++l) {
    const std::string& name = chain.stage(l).name;
    if (name.empty()) continue;
    const auto [it, inserted] = first.try_emplace(name, l);
    if (inserted) continue;
    out->push_back({absl::StrCat(StagePath(chain, l), "name"),
                    absl::StrCat(Quoted(name), " is also the name of stages[", it->second - 1,
                                 "]; names must be unique or empty")});
  }
}

}  // namespace

std::vector<FieldViolation> Violations(const Chain& chain) {
  std::vector<FieldViolation> out;
  if (chain.stages.empty())
    out.push_back({"chain.stages", "is empty; a chain has at least one stage"});
  if (chain.stages.size() > kMaxStages) {
    out.push_back(TooManyStages(chain.length()));
    return out;  // checking an oversized chain would only cost time
  }
  TotalBytes total;
  Checker checker("chain.", &out);
  total.Add(checker, "input_bytes", chain.input_bytes);
  total.AddOptional(checker, "input_gradient_bytes", chain.input_gradient_bytes, chain.input_bytes);
  for (size_t i = 0; i < chain.stages.size(); ++i) {
    CheckStage(chain.stages[i], absl::StrCat("chain.stages[", i, "]."), total, &out);
  }
  CheckStage(chain.loss, "chain.loss.", total, &out);
  checker.Seconds("graph_entry_seconds", chain.graph_entry_seconds);
  CheckNames(chain, &out);
  for (int l = 1; l <= chain.length() + 1; ++l) {
    Checker stage_checker(StagePath(chain, l), &out);
    CheckReplay(chain, l, stage_checker);
    CheckSaveOptions(chain, l, total, &out);
  }
  CheckNotInGraphMode(chain, &out);
  // CheckUnit() adds sizes, which is safe only below the limit.
  if (!total.exceeded()) CheckGroups(chain, &out);
  return out;
}

std::vector<FieldViolation> Violations(const Platform& platform) {
  std::vector<FieldViolation> out;
  Checker checker("platform.", &out);
  checker.Bytes("memory_bytes", platform.memory_bytes);
  checker.Bytes("host_memory_bytes", platform.host_memory_bytes);
  checker.Rate("offload_bytes_per_second", platform.offload_bytes_per_second);
  checker.Rate("prefetch_bytes_per_second", platform.prefetch_rate());
  checker.Seconds("transfer_latency_seconds", platform.transfer_latency_seconds);
  // An unset prefetch bandwidth equals the offload bandwidth: report that problem only once.
  if (!platform.prefetch_bytes_per_second.has_value() && !out.empty() &&
      out.back().field == "platform.prefetch_bytes_per_second") {
    out.pop_back();
  }
  return out;
}

std::vector<FieldViolation> Violations(const TrainingJob& job) {
  std::vector<FieldViolation> out = Within("job", Violations(job.chain));
  TotalBytes total("all components");
  if (job.plain_peak_bytes.has_value()) {
    Checker("job.", &out).Bytes("plain_peak_bytes", *job.plain_peak_bytes);
  }
  for (size_t i = 0; i < std::min(job.components.size(), kMaxComponents); ++i) {
    Checker checker(absl::StrCat("job.components[", i, "]."), &out);
    total.Add(checker, "bytes", job.components[i].bytes);
    checker.Count("shards", job.components[i].shards, kMaxShards);
  }
  Checker("job.", &out).Count("in_flight", job.in_flight, kMaxInFlight);
  return out;
}

std::vector<FieldViolation> Violations(const Schedule& schedule) {
  if (schedule.operations.size() <= kMaxOperations) return {};
  return {TooManyOperations(static_cast<int64_t>(schedule.operations.size()))};
}

FieldViolation TooManyStages(int64_t stages) {
  return {"chain.stages", absl::StrCat("has ", stages, " stages; at most ", kMaxStages,
                                       " are allowed, so merge layers into blocks")};
}

FieldViolation TooManyOperations(int64_t operations) {
  return {"schedule.operations", absl::StrCat("has ", operations, " operations; at most ",
                                              kMaxOperations, " are allowed")};
}

}  // namespace stowage
