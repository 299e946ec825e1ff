// Solves in this process, with Stowage::solver alone.
#include <cstdio>

#include "solver/solve/answer_request.h"

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
  const absl::StatusOr<stowage::Answer> answer = stowage::AnswerRequest(request, {});
  if (!answer.ok()) return std::fprintf(stderr, "%s\n", answer.status().ToString().c_str()), 1;
  std::printf("%s: %zu operations\n", answer->solver.c_str(), answer->schedule.operations.size());
}
