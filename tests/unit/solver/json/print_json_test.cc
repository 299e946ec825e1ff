#include "solver/json/print_json.h"

#include <gtest/gtest.h>

#include "tests/support/chains.h"

namespace stowage {
namespace {

TEST(ToJson, WritesAChainFieldByField) {
  Chain chain;
  chain.name = "two \"stages\"";
  chain.input_bytes = 10;
  chain.stages.resize(2);
  chain.stages[0].forward_seconds = 0.1;
  chain.stages[1].fusion_group = "g";
  chain.stages[1].graph = GraphCosts{.forward_seconds = 1e-5};
  EXPECT_EQ(ToJson(chain), R"({
 "name": "two \"stages\"",
 "input_bytes": "10",
 "stages": [
  {
   "name": "",
   "forward_seconds": 0.1,
   "backward_seconds": 0,
   "output_bytes": "0",
   "saved_bytes": "0",
   "forward_overhead_bytes": "0",
   "backward_overhead_bytes": "0",
   "no_recompute": false,
   "no_offload": false
  },
  {
   "name": "",
   "forward_seconds": 0,
   "backward_seconds": 0,
   "output_bytes": "0",
   "saved_bytes": "0",
   "forward_overhead_bytes": "0",
   "backward_overhead_bytes": "0",
   "no_recompute": false,
   "no_offload": false,
   "graph": {
    "forward_seconds": 1e-05,
    "backward_seconds": 0,
    "saved_bytes": "0",
    "forward_overhead_bytes": "0",
    "backward_overhead_bytes": "0"
   },
   "fusion_group": "g"
  }
 ]
}
)");
}

TEST(ToJson, WritesAPlatform) {
  Platform platform = Memory(1 << 20);
  platform.name = "\xff<gpu>";
  platform.prefetch_bytes_per_second = 12e9;
  EXPECT_EQ(ToJson(platform), R"({
 "name": "\\xff\u003cgpu\u003e",
 "offload_bytes_per_second": 0,
 "transfer_latency_seconds": 0,
 "half_duplex": false,
 "host_memory_bytes": "0",
 "memory_bytes": "1048576",
 "prefetch_bytes_per_second": 12000000000
}
)");
}

}  // namespace
}  // namespace stowage
