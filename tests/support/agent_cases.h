// Random schedules for the executors, from every solver and with random transfers.
#ifndef STOWAGE_TESTS_SUPPORT_AGENT_CASES_H_
#define STOWAGE_TESTS_SUPPORT_AGENT_CASES_H_

#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

// A chain, its platform, a schedule, and `executed`, the chain with the schedule's modes.
struct AgentCase {
  Chain chain;
  Platform platform;
  Schedule schedule;
  Chain executed;
};

// Whether the executor runs backwards whose input is gone.
enum class Inputs { kMayBeGone, kStay };

// Requires: within a property of RapidCheck.
AgentCase SomeAgentCase(Inputs inputs);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_AGENT_CASES_H_
