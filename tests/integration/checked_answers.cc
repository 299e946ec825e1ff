#include "tests/integration/checked_answers.h"

#include <gtest/gtest.h>

#include <vector>

#include "proto/convert/chain_message.h"
#include "proto/convert/request_message.h"
#include "proto/convert/schedule_message.h"
#include "solver/bounds/memory_range.h"
#include "solver/simulator/simulator.h"

namespace stowage {

v1::SolveRequest DistinctRequest(int number) {
  v1::SolveRequest request;
  *request.mutable_chain() = Profile("torchvision-resnet18-16-500");
  const Chain chain = FromMessage(request.chain());
  const int64_t low = FloorOfMemory(chain).bytes;
  const int64_t high = StoreAllPeakBytes(chain);
  request.mutable_platform()->set_memory_bytes(high - (high - low) / 1000 * (number % 900 + 1));
  request.set_solver("rotor");
  return request;
}

void ExpectRight(const v1::SolveRequest& request, const v1::SolveResponse& response) {
  std::vector<FieldViolation> violations;
  const auto simulation = Simulate(FromMessage(request.chain()), FromMessage(request.platform()),
                                   FromMessage(response.schedule(), &violations));
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  EXPECT_TRUE(simulation->feasible());
  EXPECT_EQ(simulation->prediction.makespan_seconds, response.prediction().makespan_seconds());
}

v1::Origin::Source SolveAndCheck(const Remote& remote, const v1::SolveRequest& request) {
  v1::SolveResponse response;
  const grpc::Status status = remote.Solve(request, &response);
  EXPECT_TRUE(status.ok()) << Text(status);
  ExpectRight(request, response);
  return response.origin().source();
}

}  // namespace stowage
