// What `stowage experiment` records: one solver's answer to one question, a row of its CSV.
#ifndef STOWAGE_CLIENT_CLI_EXPERIMENT_MEASUREMENT_H_
#define STOWAGE_CLIENT_CLI_EXPERIMENT_MEASUREMENT_H_

#include <optional>
#include <string>
#include <vector>

#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"

namespace stowage {

struct Measurement {
  // The question.
  std::string network;
  int stages = 0;
  double alpha = 0;   // the budget's share of the range from M_low to M_high
  Platform platform;  // memory_bytes is the budget
  std::string solver;

  // The answer.
  std::string outcome;                   // OPTIMAL, FEASIBLE, INFEASIBLE, or an error's code
  std::string schedule_of;               // the solver that won where `solver` asks others
  std::optional<Prediction> prediction;  // simulated; nullopt: there is no schedule
  double solve_seconds = 0;              // the simulation included

  // What the makespan is compared with.
  double sequential_seconds = 0;      // one forward and one backward of every stage
  double transfer_bound_seconds = 0;  // see TransferBoundSeconds()

  // Makespan over sequential time and over the transfer bound; nullopt where there is nothing to
  // divide.
  std::optional<double> Slowdown() const;
  std::optional<double> RatioToBound() const;
};

// The offloading paper's lower bound. No schedule without recomputation is faster; one with it may
// be, unlike with Prediction::lower_bound_seconds. Everything is computed once, and what does not
// fit the budget at the peak of storing everything leaves before the peak and comes back after it,
// whatever the duplex. Without a link: the time of computing. O(stages). Source: the offloading
// paper's Proposition 3. Requires: Violations(chain) is empty.
double TransferBoundSeconds(const Chain& chain, const Platform& platform);

// One line each, with its newline. Rates are in GB/s, all else in bytes, seconds and shares;
// `overhead` is Prediction::overhead (makespan over sequential time, minus 1). A cell without a
// value is empty. Times and shares have 12 digits, so that the last bits, which differ from machine
// to machine, do not show.
std::string CsvHeader();
std::string CsvRow(const Measurement& measurement);

// A table for people: for each solver, in order of appearance, how many questions it was asked, how
// many it had a schedule for, for how many one of less than 20 % overhead, its mean overhead over
// the questions that all of the solvers had one for, also as a share of rotor's if rotor is among
// them, and how often nobody was faster. A question is a network, a budget and a bandwidth.
std::string SummaryText(const std::vector<Measurement>& measurements);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_EXPERIMENT_MEASUREMENT_H_
