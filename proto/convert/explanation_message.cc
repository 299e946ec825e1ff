#include "proto/convert/explanation_message.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "proto/convert/enumerators.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr Enumerators<Holding::Kind, v1::Holding::Kind> kHoldings[] = {
    {Holding::Kind::kOutput, v1::Holding::OUTPUT},
    {Holding::Kind::kSaved, v1::Holding::SAVED},
    {Holding::Kind::kGradient, v1::Holding::GRADIENT},
    {Holding::Kind::kOverhead, v1::Holding::OVERHEAD},
};
constexpr Enumerators<StageFate::FirstSweep, v1::StageFate::FirstSweep> kSweeps[] = {
    {StageFate::FirstSweep::kSaved, v1::StageFate::KEEPS_SAVED},
    {StageFate::FirstSweep::kOutput, v1::StageFate::KEEPS_OUTPUT},
    {StageFate::FirstSweep::kNothing, v1::StageFate::KEEPS_NOTHING},
};

void Fill(const Peak& peak, v1::Peak* message) {
  message->set_operation(static_cast<int64_t>(peak.operation));
  message->set_memory_bytes(peak.memory_bytes);
  message->set_other_bytes(peak.other_bytes);
  for (const Holding& holding : peak.holdings) {
    v1::Holding& out = *message->add_holdings();
    out.set_kind(ToEnumerator(kHoldings, holding.kind));
    out.set_stage(holding.stage);
    out.set_bytes(holding.bytes);
  }
}

absl::StatusOr<Peak> FromMessage(const v1::Peak& message) {
  Peak peak;
  peak.operation = static_cast<size_t>(message.operation());
  peak.memory_bytes = message.memory_bytes();
  peak.other_bytes = message.other_bytes();
  for (const v1::Holding& in : message.holdings()) {
    Holding& holding = peak.holdings.emplace_back();
    RETURN_IF_ERROR(
        FromEnumerator(kHoldings, in.kind(), "explanation.peaks.holdings.kind", &holding.kind));
    holding.stage = in.stage();
    holding.bytes = in.bytes();
  }
  return peak;
}

void Fill(const StageFate& fate, v1::StageFate* message) {
  message->set_stage(fate.stage);
  message->set_first_sweep(ToEnumerator(kSweeps, fate.first_sweep));
  message->set_recomputed(fate.recomputed);
  message->set_offloaded(fate.offloaded);
  if (fate.mode == Mode::kGraph) message->set_mode(v1::Operation::GRAPH);
  if (fate.fused_into != 0) message->set_fused_into(fate.fused_into);
  if (fate.save_option != 0) message->set_save_option(fate.save_option);
}

absl::StatusOr<StageFate> FromMessage(const v1::StageFate& message) {
  StageFate fate;
  fate.stage = message.stage();
  RETURN_IF_ERROR(FromEnumerator(kSweeps, message.first_sweep(), "explanation.stages.first_sweep",
                                 &fate.first_sweep));
  fate.recomputed = message.recomputed();
  fate.offloaded = message.offloaded();
  if (message.mode() == v1::Operation::GRAPH) fate.mode = Mode::kGraph;
  fate.fused_into = message.fused_into();
  fate.save_option = message.save_option();
  return fate;
}

}  // namespace

// Reserves the stages, of which a chain may have thousands; peaks and idles are few.
void Fill(const Explanation& explanation, v1::Explanation* message) {
  message->mutable_stages()->Reserve(static_cast<int>(explanation.stages.size()));
  for (const Peak& peak : explanation.peaks) Fill(peak, message->add_peaks());
  for (const Idle& idle : explanation.idles) {
    v1::Idle& out = *message->add_idles();
    out.set_operation(static_cast<int64_t>(idle.operation));
    out.set_seconds(idle.seconds);
    if (idle.waits_for.has_value()) out.set_waits_for(static_cast<int64_t>(*idle.waits_for));
  }
  for (const std::string& note : explanation.notes) message->add_notes(note);
  for (const StageFate& fate : explanation.stages) Fill(fate, message->add_stages());
}

absl::StatusOr<Explanation> FromMessage(const v1::Explanation& message) {
  Explanation explanation;
  for (const v1::Peak& in : message.peaks()) {
    ASSIGN_OR_RETURN(Peak peak, FromMessage(in));
    explanation.peaks.push_back(std::move(peak));
  }
  for (const v1::Idle& in : message.idles()) {
    Idle& idle = explanation.idles.emplace_back();
    idle.operation = static_cast<size_t>(in.operation());
    idle.seconds = in.seconds();
    if (in.has_waits_for()) idle.waits_for = static_cast<size_t>(in.waits_for());
  }
  explanation.notes.assign(message.notes().begin(), message.notes().end());
  for (const v1::StageFate& in : message.stages()) {
    ASSIGN_OR_RETURN(const StageFate fate, FromMessage(in));
    explanation.stages.push_back(fate);
  }
  return explanation;
}

}  // namespace stowage
