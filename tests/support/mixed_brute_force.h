// Mixed Mode by brute force, as a reference: every split of the stages, every choice of modes,
// every division of the memory into shares, and RR-9302's Theorem 1 by plain recursion for each
// sub-sequence. Shares no code with the solvers; of the model it uses only Chain. For chains of
// about 7 stages and budgets of about 100 bytes.
#ifndef STOWAGE_TESTS_SUPPORT_MIXED_BRUTE_FORCE_H_
#define STOWAGE_TESTS_SUPPORT_MIXED_BRUTE_FORCE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "solver/model/chain.h"

namespace stowage {

// Memoizes results, so calls are not thread-safe. Borrows the chain.
class MixedBruteForce {
 public:
  explicit MixedBruteForce(const Chain& chain);

  // The least seconds within `memory_bytes`, the chain's input included; nullopt: nothing fits.
  std::optional<double> Seconds(int64_t memory_bytes);
  // E and G of modes/mode_tables.h for stages first..last, in seconds; infinite: nothing fits.
  double Eager(int first, int last, int64_t share) { return Part(eager_, first, last, share); }
  double Graph(int first, int last, int64_t share);

 private:
  struct Cost {
    double forward = 0;
    double backward = 0;
    int64_t output = 0;
    int64_t saved = 0;
    int64_t gradient = 0;         // of its output
    int64_t gradient_before = 0;  // of its input
    int64_t forward_overhead = 0;
    int64_t backward_overhead = 0;
    bool once = false;  // no_recompute
  };
  // Stages or units that run one after another in one mode, numbered from 1, and memoized results
  // of Part() by first, last and memory.
  struct Line {
    std::vector<Cost> costs = {{}};
    std::map<std::tuple<int, int, int64_t>, double> known;
  };

  static double Part(Line& line, int s, int t, int64_t memory);
  double From(int first, int64_t memory);

  const Chain& chain_;
  Line eager_;
  std::vector<std::pair<int, int>> groups_;          // first and last stage of every unit
  std::map<std::pair<int, int64_t>, double> known_;  // From(), by first and memory
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_MIXED_BRUTE_FORCE_H_
