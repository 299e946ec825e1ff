#include "solver/json/print_json.h"

#include <gtest/gtest.h>

namespace stowage {
namespace {

TEST(ToJson, WritesAChainFieldByField) {
  Chain chain;
  chain.name = "\xff<two \"stages\">";
  chain.input_bytes = 10;
  chain.stages.resize(2);
  chain.stages[0].forward_seconds = 0.1;
  chain.stages[1].fusion_group = "g";
  chain.stages[1].graph = GraphCosts{.forward_seconds = 1e-5};
  EXPECT_EQ(ToJson(chain), R"({
 "name": "\\xff\u003ctwo \"stages\"\u003e",
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

}  // namespace
}  // namespace stowage
