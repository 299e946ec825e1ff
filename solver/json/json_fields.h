// The fields of the API's messages (proto/stowage/v1) in the plain types of solver/: one list a
// type, which JsonReader reads and JsonWriter writes.
//
// A visitor has
//   Field(name, value)           a field of a message; an optional is one that may be unset
//   Unless(name, value, unset)   the same, left out of JSON where it has the value `unset`
//   Required(name, value)        a field without which the message means nothing
//   Ignored(name)                a field that the plain type does not have
// Fields that may be unset come last, as protobuf prints them. Those that most messages do without
// are left out where they say nothing.
#ifndef STOWAGE_SOLVER_JSON_JSON_FIELDS_H_
#define STOWAGE_SOLVER_JSON_JSON_FIELDS_H_

#include <array>
#include <concepts>
#include <type_traits>
#include <utility>

#include "absl/strings/string_view.h"
#include "solver/model/answer.h"
#include "solver/model/chain.h"
#include "solver/model/chain_warnings.h"
#include "solver/model/explanation.h"
#include "solver/model/platform.h"
#include "solver/model/request.h"
#include "solver/model/schedule.h"

namespace stowage {

// A message or a constant one: a reader visits the first, a writer the second.
template <typename Message, typename Type>
concept MessageOf = std::same_as<std::remove_const_t<Message>, Type>;

// --- Enumerators by name ------------------------------------------------------------------------

// kAll: the enumerators, the first of which an error gives as an example; Name(): as in JSON;
// kWanted: what an error says is expected.
template <typename Enum>
struct EnumeratorsOf;

template <>
struct EnumeratorsOf<OperationKind> {
  static constexpr absl::string_view kWanted = "a kind of operation, such as FORWARD_SAVE";
  static constexpr std::array kAll = {
      OperationKind::kForwardSave,    OperationKind::kForwardCheckpoint,
      OperationKind::kForwardDiscard, OperationKind::kBackward,
      OperationKind::kOffload,        OperationKind::kRelease,
      OperationKind::kPrefetch,       OperationKind::kForwardSaveDiscard};
  static absl::string_view Name(OperationKind kind) { return KindName(kind); }
};

template <>
struct EnumeratorsOf<Mode> {
  static constexpr absl::string_view kWanted = "a mode: EAGER or GRAPH";
  static constexpr std::array kAll = {Mode::kEager, Mode::kGraph};
  static absl::string_view Name(Mode mode) { return mode == Mode::kGraph ? "GRAPH" : "EAGER"; }
};

template <>
struct EnumeratorsOf<Outcome> {
  static constexpr absl::string_view kWanted = "an outcome, such as OPTIMAL";
  static constexpr std::array kAll = {Outcome::kOptimal, Outcome::kFeasible, Outcome::kInfeasible};
  static absl::string_view Name(Outcome outcome) { return OutcomeName(outcome); }
};

template <>
struct EnumeratorsOf<Guarantee> {
  static constexpr absl::string_view kWanted = "a limit, such as HEURISTIC";
  static constexpr std::array kAll = {Guarantee::kOptimal, Guarantee::kHeuristic,
                                      Guarantee::kUpToRounding, Guarantee::kTimeRanOut,
                                      Guarantee::kBestOfClass};
  static absl::string_view Name(Guarantee guarantee) {
    switch (guarantee) {
      case Guarantee::kOptimal:
        return "LIMIT_NONE";
      case Guarantee::kHeuristic:
        return "HEURISTIC";
      case Guarantee::kUpToRounding:
        return "ROUNDING";
      case Guarantee::kTimeRanOut:
        return "TIME";
      case Guarantee::kBestOfClass:
        return "CLASS";
    }
    return "";
  }
};

template <>
struct EnumeratorsOf<Holding::Kind> {
  using Kind = Holding::Kind;
  static constexpr absl::string_view kWanted = "a kind of holding, such as OUTPUT";
  static constexpr std::array kAll = {Kind::kOutput, Kind::kSaved, Kind::kGradient,
                                      Kind::kOverhead};
  static absl::string_view Name(Kind kind) {
    switch (kind) {
      case Kind::kOutput:
        return "OUTPUT";
      case Kind::kSaved:
        return "SAVED";
      case Kind::kGradient:
        return "GRADIENT";
      case Kind::kOverhead:
        return "OVERHEAD";
    }
    return "";
  }
};

template <>
struct EnumeratorsOf<StageFate::FirstSweep> {
  using Sweep = StageFate::FirstSweep;
  static constexpr absl::string_view kWanted = "what a sweep keeps, such as KEEPS_SAVED";
  static constexpr std::array kAll = {Sweep::kSaved, Sweep::kOutput, Sweep::kNothing};
  static absl::string_view Name(Sweep sweep) {
    switch (sweep) {
      case Sweep::kSaved:
        return "KEEPS_SAVED";
      case Sweep::kOutput:
        return "KEEPS_OUTPUT";
      case Sweep::kNothing:
        return "KEEPS_NOTHING";
    }
    return "";
  }
};

// --- Messages -----------------------------------------------------------------------------------

template <typename Visitor, MessageOf<GraphCosts> Message>
void VisitFields(Visitor& visitor, Message& costs) {
  visitor.Field("forward_seconds", costs.forward_seconds);
  visitor.Field("backward_seconds", costs.backward_seconds);
  visitor.Field("saved_bytes", costs.saved_bytes);
  visitor.Field("forward_overhead_bytes", costs.forward_overhead_bytes);
  visitor.Field("backward_overhead_bytes", costs.backward_overhead_bytes);
}

template <typename Visitor, MessageOf<SaveOption> Message>
void VisitFields(Visitor& visitor, Message& option) {
  visitor.Field("name", option.name);
  visitor.Field("saved_bytes", option.saved_bytes);
  visitor.Field("backward_seconds", option.backward_seconds);
  visitor.Field("backward_overhead_bytes", option.backward_overhead_bytes);
  visitor.Field("save_overhead_bytes", option.save_overhead_bytes);
  visitor.Unless("kept", option.kept, {});
  visitor.Unless("rerun", option.rerun, {});
}

template <typename Visitor, MessageOf<Stage> Message>
void VisitFields(Visitor& visitor, Message& stage) {
  visitor.Field("name", stage.name);
  visitor.Field("forward_seconds", stage.forward_seconds);
  visitor.Field("backward_seconds", stage.backward_seconds);
  visitor.Field("output_bytes", stage.output_bytes);
  visitor.Field("saved_bytes", stage.saved_bytes);
  visitor.Field("forward_overhead_bytes", stage.forward_overhead_bytes);
  visitor.Field("backward_overhead_bytes", stage.backward_overhead_bytes);
  visitor.Field("no_recompute", stage.no_recompute);
  visitor.Field("no_offload", stage.no_offload);
  visitor.Field("graph", stage.graph);
  visitor.Unless("save_options", stage.save_options, {});
  visitor.Field("gradient_bytes", stage.gradient_bytes);
  visitor.Unless("fusion_group", stage.fusion_group, "");
  visitor.Unless("control_flow", stage.control_flow, false);
  visitor.Field("replay_seconds", stage.replay_seconds);
  visitor.Unless("input_unread", stage.input_unread, false);
  visitor.Field("save_overhead_bytes", stage.save_overhead_bytes);
}

template <typename Visitor, MessageOf<Chain> Message>
void VisitFields(Visitor& visitor, Message& chain) {
  visitor.Field("name", chain.name);
  visitor.Field("input_bytes", chain.input_bytes);
  visitor.Field("stages", chain.stages);
  visitor.Unless("loss", chain.loss, {});
  visitor.Ignored("provenance");
  visitor.Field("input_gradient_bytes", chain.input_gradient_bytes);
  visitor.Unless("graph_entry_seconds", chain.graph_entry_seconds, 0.0);
}

template <typename Visitor, MessageOf<Platform> Message>
void VisitFields(Visitor& visitor, Message& platform) {
  visitor.Field("name", platform.name);
  visitor.Field("offload_bytes_per_second", platform.offload_bytes_per_second);
  visitor.Field("transfer_latency_seconds", platform.transfer_latency_seconds);
  visitor.Field("half_duplex", platform.half_duplex);
  visitor.Field("host_memory_bytes", platform.host_memory_bytes);
  visitor.Field("memory_bytes", platform.memory_bytes);
  visitor.Field("prefetch_bytes_per_second", platform.prefetch_bytes_per_second);
}

template <typename Visitor, MessageOf<SolveOptions> Message>
void VisitFields(Visitor& visitor, Message& options) {
  visitor.Field("memory_slots", options.memory_slots);
  visitor.Field("segments", options.segments);
  visitor.Field("time_precision", options.time_precision);
  visitor.Field("report_rounding_loss", options.report_rounding_loss);
  visitor.Field("use_cache", options.use_cache);
  visitor.Field("time_budget_seconds", options.time_budget_seconds);
  visitor.Ignored("tight_bound");  // of former versions
}

template <typename Visitor, MessageOf<Operation> Message>
void VisitFields(Visitor& visitor, Message& operation) {
  visitor.Required("kind", operation.kind);
  visitor.Field("stage", operation.stage);
  visitor.Unless("mode", operation.mode, Mode::kEager);
  visitor.Unless("first_stage", operation.first_stage, 0);
  visitor.Unless("save_option", operation.save_option, 0);
  if constexpr (!std::is_const_v<Message>) {
    if (operation.first_stage == operation.stage) operation.first_stage = 0;  // of one stage
  }
}

template <typename Visitor, MessageOf<Schedule> Message>
void VisitFields(Visitor& visitor, Message& schedule) {
  visitor.Field("operations", schedule.operations);
}

template <typename Visitor, MessageOf<Prediction> Message>
void VisitFields(Visitor& visitor, Message& prediction) {
  visitor.Field("makespan_seconds", prediction.makespan_seconds);
  visitor.Field("compute_seconds", prediction.compute_seconds);
  visitor.Field("recompute_seconds", prediction.recompute_seconds);
  visitor.Field("idle_seconds", prediction.idle_seconds);
  visitor.Field("peak_memory_bytes", prediction.peak_memory_bytes);
  visitor.Field("peak_host_bytes", prediction.peak_host_bytes);
  visitor.Field("overhead", prediction.overhead);
  visitor.Field("lower_bound_seconds", prediction.lower_bound_seconds);
  visitor.Field("gap", prediction.gap);
}

template <typename Visitor, MessageOf<Holding> Message>
void VisitFields(Visitor& visitor, Message& holding) {
  visitor.Required("kind", holding.kind);
  visitor.Field("stage", holding.stage);
  visitor.Field("bytes", holding.bytes);
}

template <typename Visitor, MessageOf<Peak> Message>
void VisitFields(Visitor& visitor, Message& peak) {
  visitor.Field("operation", peak.operation);
  visitor.Field("memory_bytes", peak.memory_bytes);
  visitor.Field("holdings", peak.holdings);
  visitor.Field("other_bytes", peak.other_bytes);
}

template <typename Visitor, MessageOf<Idle> Message>
void VisitFields(Visitor& visitor, Message& idle) {
  visitor.Field("operation", idle.operation);
  visitor.Field("seconds", idle.seconds);
  visitor.Field("waits_for", idle.waits_for);
}

template <typename Visitor, MessageOf<StageFate> Message>
void VisitFields(Visitor& visitor, Message& fate) {
  visitor.Field("stage", fate.stage);
  visitor.Required("first_sweep", fate.first_sweep);
  visitor.Field("recomputed", fate.recomputed);
  visitor.Field("offloaded", fate.offloaded);
  visitor.Unless("mode", fate.mode, Mode::kEager);
  visitor.Unless("fused_into", fate.fused_into, 0);
  visitor.Unless("save_option", fate.save_option, 0);
}

template <typename Visitor, MessageOf<Explanation> Message>
void VisitFields(Visitor& visitor, Message& explanation) {
  visitor.Field("peaks", explanation.peaks);
  visitor.Field("idles", explanation.idles);
  visitor.Field("stages", explanation.stages);
  visitor.Field("notes", explanation.notes);
}

template <typename Visitor, MessageOf<RoundingLoss> Message>
void VisitFields(Visitor& visitor, Message& loss) {
  visitor.Field("finer_slots", loss.finer_slots);
  visitor.Field("finer_makespan_seconds", loss.finer_seconds);
  visitor.Field("loss", loss.loss);
}

template <typename Visitor, MessageOf<ChainWarning> Message>
void VisitFields(Visitor& visitor, Message& warning) {
  visitor.Field("field", warning.field);
  visitor.Field("reason", warning.reason);
  visitor.Field("problem", warning.problem);
}

template <typename Visitor, MessageOf<TimelineEntry> Message>
void VisitFields(Visitor& visitor, Message& entry) {
  visitor.Field("start_seconds", entry.start_seconds);
  visitor.Field("end_seconds", entry.end_seconds);
  visitor.Field("memory_bytes", entry.memory_bytes);
  visitor.Field("host_bytes", entry.host_bytes);
}

template <typename Visitor, MessageOf<FrontierPoint> Message>
void VisitFields(Visitor& visitor, Message& point) {
  visitor.Field("memory_bytes", point.memory_bytes);
  visitor.Required("outcome", point.outcome);
  visitor.Field("limit", point.guarantee);
  visitor.Field("solver", point.solver);
  if (point.outcome != Outcome::kInfeasible) visitor.Field("prediction", point.prediction);
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_JSON_JSON_FIELDS_H_
