// Mixed Mode by trying everything: every split of the stages, every choice of modes, every way to
// share the memory out, and Theorem 1 of RR-9302 by plain recursion inside. Naive and obviously
// right; shares no code with the solvers, and of the model only Chain. For chains of some 7 stages
// and budgets of some 100 bytes.
#ifndef STOWAGE_TESTS_SUPPORT_MIXED_BRUTE_FORCE_H_
#define STOWAGE_TESTS_SUPPORT_MIXED_BRUTE_FORCE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "solver/model/chain.h"

namespace stowage {

class MixedBruteForce {
 public:
  explicit MixedBruteForce(const Chain& chain);

  // The least time within `memory_bytes`, the chain's input included; nullopt: nothing fits.
  std::optional<double> Seconds(int64_t memory_bytes);
  // E and G of stages first..last, infinite where nothing fits.
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
  // What runs one after another in one mode, from 1 on, and what is known of its parts.
  struct Line {
    std::vector<Cost> costs = {{}};
    std::map<std::tuple<int, int, int64_t>, double> known;
  };

  static double Part(Line& line, int s, int t, int64_t memory);
  double From(int first, int64_t memory);

  const Chain& chain_;
  Line eager_;
  std::vector<std::pair<int, int>> groups_;  // stages that run as one in graph mode, all of them
  std::map<std::pair<int, int64_t>, double> known_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_MIXED_BRUTE_FORCE_H_
