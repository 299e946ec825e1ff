// Which operators' results a stage keeps that is saved in part: from what each operator costs.
// Source: solver/README.md, "Ways to save a stage".
#ifndef STOWAGE_SOLVER_ALGORITHMS_KEPT_OPERATORS_H_
#define STOWAGE_SOLVER_ALGORITHMS_KEPT_OPERATORS_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace stowage {

// An operator of a stage's forward. Its results are its outputs, and what autograd saves within it
// that is neither an argument nor a part of one.
struct OperatorCost {
  std::string name;          // "linear"
  double seconds = 0;        // what a rerun saves that does not run it
  bool kept = false;         // else its results cannot be kept, such as views of its arguments
  int64_t inner_bytes = 0;   // of the results, what a backward reads
  int64_t output_bytes = 0;  // and the others, which a rerun reads alone
  // Autograd saves something that a backward does not find elsewhere; of that, an argument.
  bool saves = false;
  bool saves_argument = false;

  bool operator==(const OperatorCost&) const = default;
};

struct KeptChoice {
  std::string name = {};            // "keep linear+2 of 3 dropout"
  std::set<size_t> operators = {};  // their numbers, in order of the calls, from 0
  int64_t kept_bytes = 0;           // about what it holds beside the stage's output
  double rerun_seconds = 0;         // about what its rerun takes
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

#endif  // STOWAGE_SOLVER_ALGORITHMS_KEPT_OPERATORS_H_
