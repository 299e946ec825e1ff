// A textbook implementation of Algorithm 1 of RR-9302: the table C[m][s][t] of doubles, memory
// outermost, each entry the minimum over all choices. The reference for the results of RotorTable,
// and the baseline of its benchmark. Shares no code with the solvers.
#ifndef STOWAGE_TESTS_SUPPORT_TEXTBOOK_ROTOR_H_
#define STOWAGE_TESTS_SUPPORT_TEXTBOOK_ROTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "solver/model/chain.h"

namespace stowage {

class TextbookRotor {
 public:
  // `slots` converts bytes to memory slots. `levels`: memory levels, the chain's input included.
  // `keep_outputs_only`: the "revolve" strategy of section 5.3.
  TextbookRotor(const Chain& chain, const std::function<int64_t(int64_t)>& slots, int levels,
                bool keep_outputs_only = false);

  // The least time of the whole chain within `level`, in seconds; infinite if nothing fits.
  double Seconds(int level) const;
  // The same for part [s..t], stages numbered from 1, its input not counted.
  double Seconds(int s, int t, int level) const { return level < 0 ? kNone : At(level, s, t); }
  size_t bytes() const { return table_.size() * sizeof(double); }

  static const double kNone;

 private:
  double At(int m, int s, int t) const {
    return table_[(static_cast<size_t>(m) * static_cast<size_t>(count_) +
                   static_cast<size_t>(s - 1)) *
                      static_cast<size_t>(count_) +
                  static_cast<size_t>(t - 1)];
  }

  int count_;  // L + 1
  int input_slots_;
  std::vector<double> table_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_TEXTBOOK_ROTOR_H_
