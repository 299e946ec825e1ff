#include "tests/support/profiles.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>

#include "nlohmann/json.hpp"

namespace stowage {
namespace {

// Protobuf's JSON writes 64-bit integers as strings and reads both.
int64_t Integer(const nlohmann::json& value) {
  return value.is_string() ? std::stoll(value.get<std::string>()) : value.get<int64_t>();
}

int64_t Bytes(const nlohmann::json& object, const char* key) {
  return object.contains(key) ? Integer(object[key]) : 0;
}

std::optional<int64_t> OptionalBytes(const nlohmann::json& object, const char* key) {
  if (!object.contains(key)) return std::nullopt;
  return Integer(object[key]);
}

Stage ToStage(const nlohmann::json& object) {
  Stage stage;
  stage.name = object.value("name", "");
  stage.forward_seconds = object.value("forward_seconds", 0.0);
  stage.backward_seconds = object.value("backward_seconds", 0.0);
  stage.output_bytes = Bytes(object, "output_bytes");
  stage.saved_bytes = Bytes(object, "saved_bytes");
  stage.gradient_bytes = OptionalBytes(object, "gradient_bytes");
  stage.forward_overhead_bytes = Bytes(object, "forward_overhead_bytes");
  stage.backward_overhead_bytes = Bytes(object, "backward_overhead_bytes");
  stage.no_recompute = object.value("no_recompute", false);
  stage.no_offload = object.value("no_offload", false);
  stage.fusion_group = object.value("fusion_group", "");
  stage.control_flow = object.value("control_flow", false);
  stage.input_unread = object.value("input_unread", false);
  stage.save_overhead_bytes = OptionalBytes(object, "save_overhead_bytes");
  if (object.contains("replay_seconds")) stage.replay_seconds = object["replay_seconds"];
  for (const nlohmann::json& option : object.value("save_options", nlohmann::json::array())) {
    stage.save_options.push_back(
        {.name = option.value("name", ""),
         .saved_bytes = Bytes(option, "saved_bytes"),
         .backward_seconds = option.value("backward_seconds", 0.0),
         .backward_overhead_bytes = Bytes(option, "backward_overhead_bytes"),
         .save_overhead_bytes = OptionalBytes(option, "save_overhead_bytes")});
  }
  if (object.contains("graph")) {
    const nlohmann::json& graph = object["graph"];
    stage.graph = {.forward_seconds = graph.value("forward_seconds", 0.0),
                   .backward_seconds = graph.value("backward_seconds", 0.0),
                   .saved_bytes = Bytes(graph, "saved_bytes"),
                   .forward_overhead_bytes = Bytes(graph, "forward_overhead_bytes"),
                   .backward_overhead_bytes = Bytes(graph, "backward_overhead_bytes")};
  }
  return stage;
}

Chain ToChain(const nlohmann::json& object) {
  Chain chain;
  chain.name = object.value("name", "");
  chain.input_bytes = Bytes(object, "input_bytes");
  chain.input_gradient_bytes = OptionalBytes(object, "input_gradient_bytes");
  for (const nlohmann::json& stage : object.at("stages")) chain.stages.push_back(ToStage(stage));
  if (object.contains("loss")) chain.loss = ToStage(object["loss"]);
  chain.graph_entry_seconds = object.value("graph_entry_seconds", 0.0);
  return chain;
}

std::vector<std::string> ProfilesIn(const std::string& folder) {
  std::vector<std::string> names;
  const std::string path = std::string(STOWAGE_TEST_DATA) + "/" + folder;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() != ".json") continue;
    names.push_back(folder + entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::vector<std::string> AllProfiles() { return ProfilesIn(""); }

std::vector<std::string> CaseProfiles() { return ProfilesIn("cases/"); }

std::vector<std::string> SampledProfiles() {
  std::vector<std::string> names = AllProfiles();
  std::erase(names, "preact-resnet1001-1-224");
  return names;
}

Chain LoadProfile(const std::string& name) {
  const std::string path = std::string(STOWAGE_TEST_DATA) + "/" + name + ".json";
  try {
    std::ifstream file(path);
    return ToChain(nlohmann::json::parse(file));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), error.what());
    std::exit(1);
  }
}

}  // namespace stowage
