// One row of `stowage experiment`'s CSV: a solver's answer at one point of the sweep.
#ifndef STOWAGE_CLIENT_CLI_EXPERIMENT_MEASUREMENT_H_
#define STOWAGE_CLIENT_CLI_EXPERIMENT_MEASUREMENT_H_

#include <optional>
#include <string>

#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"

namespace stowage {

inline constexpr double kGigabyte = 1e9;

struct Measurement {
  // The point.
  std::string network;
  int stages = 0;
  double alpha = 0;   // the budget as a share of the range from M_low to M_high
  Platform platform;  // memory_bytes is the budget
  std::string solver;

  // The answer.
  std::string outcome;                   // OPTIMAL, FEASIBLE, INFEASIBLE, or an error's code
  std::string schedule_of;               // the solver that found it where `solver` runs others
  std::optional<Prediction> prediction;  // simulated; nullopt without a schedule
  double solve_seconds = 0;              // includes the simulation

  // References for the makespan.
  double sequential_seconds = 0;      // one forward and one backward of every stage
  double transfer_bound_seconds = 0;  // see TransferBoundSeconds()

  // Makespan over the transfer bound; nullopt without a schedule or where the bound is 0.
  std::optional<double> RatioToBound() const;
};

// The offloading paper's lower bound for schedules without recomputation (a schedule with it may be
// faster, unlike with Prediction::lower_bound_seconds):
//   max(U, D / out + D / back + 2 * latency)
// with U the time of computing every stage once and D the bytes by which the peak of storing
// everything exceeds the budget: they leave before the peak and come back after it, so that the
// duplex makes no difference. U without a link. O(stages). Source: the offloading paper's
// Proposition 3. Requires: Violations(chain) is empty.
double TransferBoundSeconds(const Chain& chain, const Platform& platform);

// One line each, with its newline. Rates are in GB/s, the rest in bytes, seconds and fractions;
// `overhead` is Prediction::overhead. A cell without a value is empty. Times and fractions have 12
// digits, without the last bits, which differ between machines.
std::string CsvHeader();
std::string CsvRow(const Measurement& measurement);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_EXPERIMENT_MEASUREMENT_H_
