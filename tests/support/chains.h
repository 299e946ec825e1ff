// Chains and schedules for tests: short notations, and random chains for RapidCheck.
#ifndef STOWAGE_TESTS_SUPPORT_CHAINS_H_
#define STOWAGE_TESTS_SUPPORT_CHAINS_H_

#include <cstdint>
#include <ostream>
#include <vector>

#include "absl/strings/string_view.h"
#include "rapidcheck.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

// "S1 C2 D3 B2 O1 R1 P1": FORWARD_SAVE 1, FORWARD_CHECKPOINT 2, FORWARD_DISCARD 3, BACKWARD 2,
// OFFLOAD 1, RELEASE 1, PREFETCH 1; X2 is FORWARD_SAVE_DISCARD 2. "gS2-4": FORWARD_SAVE of the
// fused stages 2 to 4 in graph mode. "S1:2": by save_option 2.
Schedule Ops(absl::string_view text);

// A platform with `bytes` of memory and no link to the host.
Platform Memory(int64_t bytes);

// `stages` equal stages: forward 1 s, backward 2 s, output 10 bytes, saved 30 bytes, input 10
// bytes, no overheads, a loss without costs.
Chain EqualChain(int stages);

// A chain on which persistent schedules are not optimal (RR-9302, section 4.1, in the memory model
// of solver/README.md): n + 4 stages, memory 9; persistent 3n + 3, not persistent 2n + 4. Requires:
// n >= 2.
Chain NonPersistentChain(int n);

// Small random chains: 1 to `max_stages` stages, sizes 0..6, gradients of any size, all kinds of
// overheads, zero times, a loss that may take memory and time, and no_recompute stages.
rc::Gen<Chain> SmallChains(int max_stages);

// The same with a replay_seconds at most stages that may have one, equal to the forward now and
// then.
rc::Gen<Chain> SmallReplayChains(int max_stages);

// The same where about every second stage, the loss too, is input_unread.
rc::Gen<Chain> SmallUnreadChains(int max_stages);

// The same with up to two save_options at each stage, the loss too.
rc::Gen<Chain> SmallOptionChains(int max_stages);

// The same without input_unread stages.
rc::Gen<Chain> SmallWayChains(int max_stages);

// Raises every save_overhead_bytes of a chain whose sizes were changed to what is allowed.
void RaiseSaveOverheads(Chain* chain);

// A chain in graph mode has none.
void ForgetSaveOverheads(Chain* chain);

// SmallChains() with graph costs at most stages, now and then cheaper or smaller than the eager
// ones, fusion groups of up to three, control flow, and a price for entering graph mode.
rc::Gen<Chain> SmallModeChains(int max_stages);

// For RapidCheck's and GoogleTest's failure messages.
std::ostream& operator<<(std::ostream& out, const Chain& chain);
std::ostream& operator<<(std::ostream& out, const Schedule& schedule);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_CHAINS_H_
