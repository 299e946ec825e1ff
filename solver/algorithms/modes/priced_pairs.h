// All sub-sequences of a chain at one price of memory, and the cheapest paths through them: the
// dual of Mixed Mode's program (split_certificate.h).
#ifndef STOWAGE_SOLVER_ALGORITHMS_MODES_PRICED_PAIRS_H_
#define STOWAGE_SOLVER_ALGORITHMS_MODES_PRICED_PAIRS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "solver/kernels/min_plus.h"

namespace stowage {

// Relative error of sums and differences of charges.
inline constexpr double kChargeRounding = 1e-12;

// At a price λ (seconds a slot), sub-sequence [j,i) is charged w(j,i) = min over δ of F(j,i,δ) +
// λδ.
//   D(i)   the least charge of a path from 0 to i
//   D'(j)  the least charge of a path from j to N
// Use: Start(), Set() for every sub-sequence by growing begin, Finish(). Not thread-safe meanwhile.
class PricedPairs {
 public:
  // For N = `count`; O(N^2) memory.
  explicit PricedPairs(int count)
      : index_(count),
        charged_(index_.size()),
        to_(static_cast<size_t>(count) + 1, kInfinite),
        from_(to_.size(), kInfinite),
        begin_(to_.size()) {}

  void Start(double price) {
    price_ = price;
    std::fill(to_.begin(), to_.end(), kInfinite);
    to_[0] = 0;
  }
  // w(begin, end). D(begin) is final, since every sub-sequence that ends there begins earlier.
  void Set(int begin, int end, double charged) {
    charged_[index_(begin, end - 1)] = charged;
    const double sum = to(begin) + charged;
    if (sum >= to(end)) return;
    to_[static_cast<size_t>(end)] = sum;
    begin_[static_cast<size_t>(end)] = begin;
  }
  // Computes D'. O(N^2).
  void Finish() {
    const int count = static_cast<int>(to_.size()) - 1;
    std::fill(from_.begin(), from_.end(), kInfinite);
    from_.back() = 0;
    for (int begin = count - 1; begin >= 0; --begin) {
      double& least = from_[static_cast<size_t>(begin)];
      for (int end = begin + 1; end <= count; ++end) {
        least = std::min(least, Charged(begin, end) + from_[static_cast<size_t>(end)]);
      }
    }
  }

  double price() const { return price_; }
  double Charged(int begin, int end) const { return charged_[index_(begin, end - 1)]; }
  double to(int end) const { return to_[static_cast<size_t>(end)]; }  // D
  // The begin of the last sub-sequence on the path behind D(end).
  int begin(int end) const { return begin_[static_cast<size_t>(end)]; }
  // D(begin) + D'(end) - λ·share: a solution within `share` slots that contains the sub-sequence
  // takes at least this and what the sub-sequence is charged. Requires: Finish().
  double Rest(int begin, int end, int64_t share) const {
    const double budget = price_ * static_cast<double>(share) * (1 + kChargeRounding);
    return to(begin) + from_[static_cast<size_t>(end)] - budget;
  }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();

  double price_ = 0;  // λ
  Triangle index_;
  std::vector<double> charged_;  // w, by sub-sequence
  std::vector<double> to_;       // D, by position
  std::vector<double> from_;     // D', by position
  std::vector<int> begin_;       // by position
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_PRICED_PAIRS_H_
