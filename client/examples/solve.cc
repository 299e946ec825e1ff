// Gets a schedule from a server: `stowage-example-solve [HOST:PORT]`, by
// default 127.0.0.1:50051. To copy from.
#include <cstdio>

#include "client/lib/remote_scheduler.h"

int main(int argc, char** argv) {
  stowage::SolveRequest request;
  request.chain.input_bytes = 4'096;
  for (int l = 1; l <= 8; ++l) {  // what a profiler measured of each layer
    stowage::Stage& stage = request.chain.stages.emplace_back();
    stage.forward_seconds = 0.004;
    stage.backward_seconds = 0.009;
    stage.output_bytes = 16'384;
    stage.saved_bytes = 65'536;
  }
  request.platform.memory_bytes = 300'000;
  stowage::RemoteOptions server;
  if (argc > 1) server.servers = {argv[1]};
  const absl::StatusOr<stowage::SolveResult> result =
      stowage::RemoteScheduler(server).Solve(request, {});
  if (!result.ok()) return std::fprintf(stderr, "%s\n", result.status().ToString().c_str()), 1;
  for (const stowage::Operation& operation : result->answer->schedule.operations) {
    std::printf("%s\n", stowage::OperationName(operation).c_str());
  }
  return result->answer->outcome == stowage::Outcome::kInfeasible ? 2 : 0;
}
