#include "solver/model/chain.h"

#include <cassert>

namespace stowage {

const Stage& Chain::stage(int l) const {
  assert(l >= 1 && l <= length() + 1);
  return l == length() + 1 ? loss : stages[static_cast<size_t>(l) - 1];
}

int64_t Chain::output_bytes(int l) const { return l == 0 ? input_bytes : stage(l).output_bytes; }

int64_t Chain::gradient_bytes(int l) const {
  if (l == length() + 1) return 0;
  if (l == 0) return input_gradient_bytes.value_or(input_bytes);
  return stage(l).gradient_bytes.value_or(stage(l).output_bytes);
}

double Chain::ComputeSeconds() const {
  double sum = loss.forward_seconds + loss.backward_seconds;
  for (const Stage& stage : stages) sum += stage.forward_seconds + stage.backward_seconds;
  return sum;
}

}  // namespace stowage
