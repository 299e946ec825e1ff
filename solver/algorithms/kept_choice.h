// Which operators' results an option to save a stage keeps: from what each operator costs.
#ifndef STOWAGE_CLIENT_TORCH_KEPT_CHOICE_H_
#define STOWAGE_CLIENT_TORCH_KEPT_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/torch/kept_results.h"
#include "client/torch/torch_stage.h"

namespace stowage {

struct KeptChoice {
  std::string name = {};  // "keep linear+2 of 3 dropout"
  KeptOperators operators = {};
  int64_t kept_bytes = 0;    // about what it holds beside the stage's output
  double rerun_seconds = 0;  // about what its rerun takes
};

// Choices between keeping nothing and `most_bytes`, at most `count` and neither: of every choice
// that is not the only one below its bytes, the one with the shortest rerun. With more bytes first.
//
// From the last operator to the first one, each is kept or not. A rerun ends at the last operator
// that still fills a place; what is behind costs no time, and what is kept there no outputs. With
// E_i the Pareto-optimal (bytes, seconds) of operators i.. while the rerun has not reached them,
// and R_i where it ends behind i:
//
//   not kept   R_i <- R_(i+1) + (0, t_i)
//              R_i <- E_(i+1) + (0, t_i) if it saves, else E_i <- E_(i+1)
//   kept       R_i <- R_(i+1) + (outputs_i + inner_i, 0)
//              R_i <- E_(i+1) + (inner_i, 0) if it saves an argument, else E_i <- the same
//
// Lists are thinned to the quickest of each of 256 steps of bytes, so that this takes
// O(operators * 256) additions.
std::vector<KeptChoice> ChooseKept(const std::vector<OperatorCost>& costs, int64_t most_bytes,
                                   size_t count);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_KEPT_CHOICE_H_
