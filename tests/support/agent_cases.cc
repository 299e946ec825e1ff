#include "tests/support/agent_cases.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "rapidcheck.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"
#include "tests/support/chains.h"
#include "tests/support/transfers.h"

namespace stowage {
namespace {

// Gives some of the stages graph costs, alone and in fusion groups.
Chain WithSomeModes(Chain chain) {
  const int length = chain.length();
  ForgetSaveOverheads(&chain);
  for (int first = 0, last = 0; first < length; first = last + 1) {
    last = std::min(first + *rc::gen::inRange(0, 3), length - 1);
    const bool has_graph = *rc::gen::inRange(0, 3) > 0;
    for (int l = first; has_graph && l <= last; ++l) {
      Stage& stage = chain.stages[static_cast<size_t>(l)];
      if (first < last) stage.fusion_group = "from " + std::to_string(first);
      stage.graph = {
          .forward_seconds = *rc::gen::inRange(0, 3) / 1.0,
          .backward_seconds = *rc::gen::inRange(0, 3) / 1.0,
          .saved_bytes = (l == last ? stage.output_bytes : 0) + *rc::gen::inRange<int64_t>(0, 3),
          .forward_overhead_bytes = *rc::gen::inRange<int64_t>(0, 3)};
    }
  }
  chain.graph_entry_seconds = *rc::gen::inRange(0, 2);
  return chain;
}

}  // namespace

AgentCase SomeAgentCase(Inputs inputs) {
  AgentCase result;
  const bool unread = inputs == Inputs::kMayBeGone && *rc::gen::arbitrary<bool>();
  result.chain = unread ? *SmallUnreadChains(8) : *SmallChains(8);
  if (!unread && *rc::gen::arbitrary<bool>()) result.chain = WithSomeModes(std::move(result.chain));
  const Chain& chain = result.chain;
  const int64_t low = FloorOfMemory(chain).bytes;
  const auto solvers = AllSolvers();
  const std::string solver = solvers[*rc::gen::inRange(size_t{0}, solvers.size())].description.name;
  const int64_t budget = *rc::gen::inRange(low, StoreAllPeakBytes(chain) + 2);
  const auto answer = AnswerRequest({chain, Memory(budget), solver, {}}, {});
  RC_ASSERT(answer.ok());
  RC_PRE(answer->outcome != Outcome::kInfeasible);
  std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
  const double share = *rc::gen::inRange(0, 5) / 4.0;
  const auto execution = Execution::Of(chain, ChainUnits(chain), answer->schedule);
  RC_ASSERT(execution.ok());
  result.executed = execution->chain();
  result.schedule = execution->ToChain(
      WithTransfers(result.executed, execution->FromChain(answer->schedule), share, &random));
  RC_CLASSIFY(HasGraphOperations(result.schedule), "graph mode");
  result.platform = Memory(budget);
  result.platform.offload_bytes_per_second = 1;
  result.platform.half_duplex = *rc::gen::arbitrary<bool>();
  RC_CLASSIFY(result.schedule != answer->schedule, "transfers");
  return result;
}

}  // namespace stowage
