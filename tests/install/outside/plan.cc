// Asks a server that is not there, and so solves in this process: Stowage::client.
#include <cstdio>

#include "client/lib/planner.h"

int main() {
  stowage::SolveRequest request;
  request.chain.input_bytes = 4'096;
  for (int l = 1; l <= 8; ++l) {
    stowage::Stage& stage = request.chain.stages.emplace_back();
    stage.forward_seconds = 0.004;
    stage.backward_seconds = 0.009;
    stage.output_bytes = 16'384;
    stage.saved_bytes = 65'536;
  }
  request.platform.memory_bytes = 300'000;
  stowage::PlannerOptions options;
  options.servers = {"unix:/nowhere/stowage.sock"};
  options.patience_seconds = 0;
  const absl::StatusOr<stowage::PlannedAnswer> planned = stowage::FindPlan(options, request);
  if (!planned.ok()) return std::fprintf(stderr, "%s\n", planned.status().ToString().c_str()), 1;
  for (const std::string& note : planned->notes) std::printf("note: %s\n", note.c_str());
  const stowage::Answer& answer = *planned->result.answer;
  std::printf("%s: %zu operations\n", answer.solver.c_str(), answer.schedule.operations.size());
}
