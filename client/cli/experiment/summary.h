// What the rows of `stowage experiment` say of each solver.
#ifndef STOWAGE_CLIENT_CLI_EXPERIMENT_SUMMARY_H_
#define STOWAGE_CLIENT_CLI_EXPERIMENT_SUMMARY_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/experiment/measurement.h"

namespace stowage {

struct Record {
  std::string solver;
  int points = 0;
  int feasible = 0;  // points with a schedule
  int cheap = 0;     // points with less than 20 % overhead
  int wins = 0;      // points at which no solver was faster
  // Over the points at which every solver has a schedule; nullopt without such points.
  std::optional<double> mean_overhead = {};
  std::optional<double> share_of_rotor = {};  // of rotor's; nullopt where that has none
};

// A point is a network, a budget and a bandwidth.
struct Summary {
  size_t points = 0;
  size_t common_points = 0;     // for which every solver has a schedule
  std::vector<Record> records;  // one a solver, in order of appearance
};

Summary SummaryOf(const std::vector<Measurement>& measurements);

// A table with a row for each solver.
std::string SummaryText(const Summary& summary);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_EXPERIMENT_SUMMARY_H_
