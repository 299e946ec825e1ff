#include "solver/algorithms/revolve.h"

#include "solver/algorithms/rotor.h"

namespace stowage {

std::unique_ptr<Solver> MakeRevolve() {
  return MakePersistentSolver("revolve", Saving::kWhereForced);
}

}  // namespace stowage
