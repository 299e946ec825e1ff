#include "tests/support/forged_requests.h"

#include <cstdint>

namespace stowage {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

// The lower halves of XXH3's constants for the two numbers.
constexpr int64_t kFirstHalf = 1323727307;
constexpr int64_t kSecondHalf = 3350977785;
constexpr int64_t kUpperHalf = int64_t{7} << 32;  // 28 GiB

SolveRequest WithOverheads(int64_t first, int64_t ninth) {
  Stage stage;
  stage.forward_seconds = 1;
  stage.backward_seconds = 2;
  stage.output_bytes = kMiB;
  stage.saved_bytes = 2 * kMiB;
  SolveRequest request;
  request.solver = "rotor";
  request.platform.memory_bytes = 34 * kGiB;
  request.chain.input_bytes = kMiB;
  request.chain.stages.assign(20, stage);
  request.chain.stages[8].output_bytes = request.chain.stages[8].saved_bytes = 8 * kGiB;
  request.chain.stages[0].forward_overhead_bytes = first;
  request.chain.stages[8].forward_overhead_bytes = ninth;
  return request;
}

}  // namespace

SolveRequest VictimRequest() { return WithOverheads(kUpperHalf + kFirstHalf, kSecondHalf); }
SolveRequest ForgedRequest() { return WithOverheads(kFirstHalf, kUpperHalf + kSecondHalf); }

}  // namespace stowage
