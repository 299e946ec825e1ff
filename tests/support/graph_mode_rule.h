// Estimated graph costs for chains that were profiled in eager mode only, until they are measured
// on a GPU. tests/data/modes holds the result of this rule for profiles of tests/data.
//
// Units (`fusion_group`):
//   - an element-wise or normalization operator (bn, norm, relu) and its producer, the stage before
//   - in transformers, the attention and the mlp of a block: the normalization at the start of the
//     mlp fuses with the sum at the end of the attention
//   - for the same reason, up to four neighbouring blocks of one resolution in networks whose
//     blocks start with a normalization (pre-activation, dense)
// Recurrent layers loop over a number of steps that depends on the batch: control_flow.
//
// Costs of a unit:
//   - It saves what its stages save.
//   - Time: half of what a stage saves beside its output is read by its element-wise and
//     normalization operators. Fused, they read it from registers, which saves one read in the
//     forward and two in the backward, at the device's memory bandwidth. No time falls below half.
//   - Overheads: a captured graph has a memory pool of its own, which holds at the same time what
//     eager mode frees in between. So its overheads are the sums of its stages', and its backward's
//     includes the gradients between them.
//   - Entry: 20 us, the launches of one captured graph for the forward and one for the backward.
#ifndef STOWAGE_TESTS_SUPPORT_GRAPH_MODE_RULE_H_
#define STOWAGE_TESTS_SUPPORT_GRAPH_MODE_RULE_H_

#include <string>
#include <vector>

#include "solver/model/chain.h"

namespace stowage {

// `profile`: the chain's file name in tests/data, from which the units and the device follow.
Chain WithGraphMode(const Chain& chain, const std::string& profile);

// The profiles that tests/data/modes has.
std::vector<std::string> ModeProfiles();

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_GRAPH_MODE_RULE_H_
