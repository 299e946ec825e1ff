#include "proto/convert/chain_message.h"

#include <optional>

#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

// An optional field stays unset where the domain has no value for it, in both directions: unset may
// mean something else than 0, as for gradient_bytes.
GraphCosts FromMessage(const v1::GraphCosts& message) {
  GraphCosts costs;
  costs.forward_seconds = message.forward_seconds();
  costs.backward_seconds = message.backward_seconds();
  costs.saved_bytes = message.saved_bytes();
  costs.forward_overhead_bytes = message.forward_overhead_bytes();
  costs.backward_overhead_bytes = message.backward_overhead_bytes();
  return costs;
}

v1::GraphCosts ToMessage(const GraphCosts& costs) {
  v1::GraphCosts message;
  message.set_forward_seconds(costs.forward_seconds);
  message.set_backward_seconds(costs.backward_seconds);
  message.set_saved_bytes(costs.saved_bytes);
  message.set_forward_overhead_bytes(costs.forward_overhead_bytes);
  message.set_backward_overhead_bytes(costs.backward_overhead_bytes);
  return message;
}

SaveOption FromMessage(const v1::SaveOption& message) {
  SaveOption option = {.name = message.name(),
                       .saved_bytes = message.saved_bytes(),
                       .backward_seconds = message.backward_seconds(),
                       .backward_overhead_bytes = message.backward_overhead_bytes()};
  if (message.has_save_overhead_bytes()) option.save_overhead_bytes = message.save_overhead_bytes();
  option.kept.assign(message.kept().begin(), message.kept().end());
  option.rerun.assign(message.rerun().begin(), message.rerun().end());
  return option;
}

v1::SaveOption ToMessage(const SaveOption& option) {
  v1::SaveOption message;
  message.set_name(option.name);
  message.set_saved_bytes(option.saved_bytes);
  message.set_backward_seconds(option.backward_seconds);
  message.set_backward_overhead_bytes(option.backward_overhead_bytes);
  if (option.save_overhead_bytes.has_value()) {
    message.set_save_overhead_bytes(*option.save_overhead_bytes);
  }
  message.mutable_kept()->Add(option.kept.begin(), option.kept.end());
  message.mutable_rerun()->Add(option.rerun.begin(), option.rerun.end());
  return message;
}

Stage FromMessage(const v1::Stage& message) {
  Stage stage;
  stage.name = message.name();
  stage.forward_seconds = message.forward_seconds();
  stage.backward_seconds = message.backward_seconds();
  stage.output_bytes = message.output_bytes();
  stage.saved_bytes = message.saved_bytes();
  if (message.has_gradient_bytes()) stage.gradient_bytes = message.gradient_bytes();
  stage.forward_overhead_bytes = message.forward_overhead_bytes();
  stage.backward_overhead_bytes = message.backward_overhead_bytes();
  stage.no_recompute = message.no_recompute();
  stage.no_offload = message.no_offload();
  if (message.has_graph()) stage.graph = FromMessage(message.graph());
  stage.fusion_group = message.fusion_group();
  stage.control_flow = message.control_flow();
  stage.input_unread = message.input_unread();
  if (message.has_replay_seconds()) stage.replay_seconds = message.replay_seconds();
  if (message.has_save_overhead_bytes()) stage.save_overhead_bytes = message.save_overhead_bytes();
  for (const v1::SaveOption& option : message.save_options()) {
    stage.save_options.push_back(FromMessage(option));
  }
  return stage;
}

v1::Stage ToMessage(const Stage& stage) {
  v1::Stage message;
  message.set_name(stage.name);
  message.set_forward_seconds(stage.forward_seconds);
  message.set_backward_seconds(stage.backward_seconds);
  message.set_output_bytes(stage.output_bytes);
  message.set_saved_bytes(stage.saved_bytes);
  if (stage.gradient_bytes.has_value()) message.set_gradient_bytes(*stage.gradient_bytes);
  message.set_forward_overhead_bytes(stage.forward_overhead_bytes);
  message.set_backward_overhead_bytes(stage.backward_overhead_bytes);
  message.set_no_recompute(stage.no_recompute);
  message.set_no_offload(stage.no_offload);
  if (stage.graph.has_value()) *message.mutable_graph() = ToMessage(*stage.graph);
  if (!stage.fusion_group.empty()) message.set_fusion_group(stage.fusion_group);
  if (stage.control_flow) message.set_control_flow(true);
  if (stage.input_unread) message.set_input_unread(true);
  if (stage.replay_seconds.has_value()) message.set_replay_seconds(*stage.replay_seconds);
  if (stage.save_overhead_bytes.has_value()) {
    message.set_save_overhead_bytes(*stage.save_overhead_bytes);
  }
  for (const SaveOption& option : stage.save_options) {
    *message.add_save_options() = ToMessage(option);
  }
  return message;
}

// nullopt: this version does not know it.
std::optional<Component::Phase> FromMessage(v1::Component::Phase phase) {
  switch (phase) {
    case v1::Component::STEP:
      return Component::Phase::kStep;
    case v1::Component::LAYERS:
      return Component::Phase::kLayers;
    case v1::Component::UPDATE:
      return Component::Phase::kUpdate;
    case v1::Component::AROUND:
      return Component::Phase::kAround;
    default:
      return std::nullopt;
  }
}

v1::Component::Phase ToMessage(Component::Phase phase) {
  switch (phase) {
    case Component::Phase::kStep:
      break;
    case Component::Phase::kLayers:
      return v1::Component::LAYERS;
    case Component::Phase::kUpdate:
      return v1::Component::UPDATE;
    case Component::Phase::kAround:
      return v1::Component::AROUND;
  }
  return v1::Component::STEP;
}

}  // namespace

// Leaves the provenance out: no solver reads it, and nothing is returned to the caller.
Chain FromMessage(const v1::Chain& message) {
  Chain chain;
  chain.name = message.name();
  chain.input_bytes = message.input_bytes();
  if (message.has_input_gradient_bytes())
    chain.input_gradient_bytes = message.input_gradient_bytes();
  chain.stages.reserve(static_cast<size_t>(message.stages_size()));
  for (const v1::Stage& stage : message.stages()) chain.stages.push_back(FromMessage(stage));
  if (message.has_loss()) chain.loss = FromMessage(message.loss());
  chain.graph_entry_seconds = message.graph_entry_seconds();
  return chain;
}

v1::Chain ToMessage(const Chain& chain) {
  v1::Chain message;
  message.set_name(chain.name);
  message.set_input_bytes(chain.input_bytes);
  if (chain.input_gradient_bytes.has_value()) {
    message.set_input_gradient_bytes(*chain.input_gradient_bytes);
  }
  for (const Stage& stage : chain.stages) *message.add_stages() = ToMessage(stage);
  // An unset loss and one without costs mean the same.
  if (chain.loss != Stage{}) *message.mutable_loss() = ToMessage(chain.loss);
  if (chain.graph_entry_seconds != 0) message.set_graph_entry_seconds(chain.graph_entry_seconds);
  return message;
}

Platform FromMessage(const v1::Platform& message) {
  Platform platform;
  platform.name = message.name();
  platform.memory_bytes = message.memory_bytes();
  platform.offload_bytes_per_second = message.offload_bytes_per_second();
  if (message.has_prefetch_bytes_per_second()) {
    platform.prefetch_bytes_per_second = message.prefetch_bytes_per_second();
  }
  platform.transfer_latency_seconds = message.transfer_latency_seconds();
  platform.half_duplex = message.half_duplex();
  platform.host_memory_bytes = message.host_memory_bytes();
  return platform;
}

v1::Platform ToMessage(const Platform& platform) {
  v1::Platform message;
  message.set_name(platform.name);
  message.set_memory_bytes(platform.memory_bytes);
  message.set_offload_bytes_per_second(platform.offload_bytes_per_second);
  if (platform.prefetch_bytes_per_second.has_value()) {
    message.set_prefetch_bytes_per_second(*platform.prefetch_bytes_per_second);
  }
  message.set_transfer_latency_seconds(platform.transfer_latency_seconds);
  message.set_half_duplex(platform.half_duplex);
  message.set_host_memory_bytes(platform.host_memory_bytes);
  return message;
}

TrainingJob FromMessage(const v1::Job& message, std::vector<FieldViolation>* violations) {
  TrainingJob job{.chain = FromMessage(message.chain())};
  for (const v1::Component& component : message.components()) {
    const std::optional<Component::Phase> phase = FromMessage(component.phase());
    if (!phase.has_value()) {
      violations->push_back({absl::StrCat("job.components[", job.components.size(), "].phase"),
                             absl::StrCat("is ", static_cast<int>(component.phase()),
                                          "; it must be STEP, LAYERS, UPDATE or AROUND")});
    }
    job.components.push_back({component.name(), component.bytes(),
                              phase.value_or(Component::Phase::kStep), component.shards()});
  }
  if (message.has_plain_peak_bytes()) job.plain_peak_bytes = message.plain_peak_bytes();
  job.in_flight = message.in_flight();
  return job;
}

v1::Component ToMessage(const Component& component) {
  v1::Component message;
  message.set_name(component.name);
  message.set_bytes(component.bytes);
  message.set_phase(ToMessage(component.phase));
  message.set_shards(component.shards);
  return message;
}

v1::Job ToMessage(const TrainingJob& job) {
  v1::Job message;
  *message.mutable_chain() = ToMessage(job.chain);
  for (const Component& component : job.components) {
    *message.add_components() = ToMessage(component);
  }
  if (job.plain_peak_bytes.has_value()) message.set_plain_peak_bytes(*job.plain_peak_bytes);
  message.set_in_flight(job.in_flight);
  return message;
}

// Platform has no unset budget: a field that was left out would read as a budget of 0.
std::vector<FieldViolation> MissingFields(const v1::Platform& message) {
  if (message.has_memory_bytes()) return {};
  return {{"platform.memory_bytes", "is missing; give the device memory, in bytes"}};
}

}  // namespace stowage
