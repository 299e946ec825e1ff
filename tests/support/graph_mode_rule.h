// Graph costs for chains that were only profiled in eager mode, by a rule, until a GPU measures
// better ones. What tests/data/modes holds is what this makes of tests/data.
//
// Which stages run as one (`fusion_group`): an element-wise or normalization operator (bn, norm,
// relu) and its producer, the stage before it; in transformers the attention and the mlp of a
// block, since the normalization that opens the mlp belongs to the sum that closes the attention;
// for the same reason neighbouring blocks of networks whose blocks open with a normalization
// (pre-activation, dense), up to four of one resolution. Recurrent layers loop over as many steps
// as a batch has: control_flow.
//
// What a unit costs. It saves what its stages save. Of what a stage saves beside its output, half
// is what its element-wise and normalization operators read: fused, they read it from registers,
// once less in the forward, and twice less in the backward, at the device's memory bandwidth; no
// time falls below half. A captured graph has a memory pool of its own, which holds at once what
// eager mode frees in between: its overheads are the sums of its stages', and its backward's has
// the gradients between them, too. Entering takes 20 us: the launch of one captured graph for the
// forward and one for the backward.
#ifndef STOWAGE_TESTS_SUPPORT_GRAPH_MODE_RULE_H_
#define STOWAGE_TESTS_SUPPORT_GRAPH_MODE_RULE_H_

#include <string>
#include <vector>

#include "solver/model/chain.h"

namespace stowage {

// `profile`: the name under which tests/data has the chain; it decides about groups and device.
Chain WithGraphMode(const Chain& chain, const std::string& profile);

// The profiles of which tests/data/modes has both modes.
std::vector<std::string> ModeProfiles();

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_GRAPH_MODE_RULE_H_
