#include "solver/model/chain.h"

namespace stowage {

double Chain::ComputeSeconds() const {
  double sum = loss.forward_seconds + loss.backward_seconds;
  for (const Stage& stage : stages) sum += stage.forward_seconds + stage.backward_seconds;
  return sum;
}

}  // namespace stowage
