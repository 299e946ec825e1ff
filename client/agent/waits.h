// The waits between the three queues of a plan. Pure. Source: solver/README.md, "Time".
#ifndef STOWAGE_CLIENT_AGENT_WAITS_H_
#define STOWAGE_CLIENT_AGENT_WAITS_H_

#include <vector>

#include "client/agent/command.h"

namespace stowage {

// Adds to the commands of a chain of `stages` stages the waits of solver/README.md, "Time", and
// those for the PREFETCHes that still read memory of `host` that an OFFLOAD reuses; marks the
// commands that others wait for. Requires: `host` has its layout, and no command waits yet.
void AddWaits(int stages, const Region& host, std::vector<Command>* commands);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_WAITS_H_
