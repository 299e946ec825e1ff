#include "solver/algorithms/rematerialization/revolve.h"

#include "solver/algorithms/rematerialization/rotor.h"

namespace stowage {

std::unique_ptr<Solver> MakeRevolve() {
  return MakePersistentSolver("revolve", Saving::kWhereForced);
}

}  // namespace stowage
