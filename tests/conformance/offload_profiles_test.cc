// The solvers that offload on the real chains of tests/data: every schedule is simulated, `auto` is
// no slower than any other solver, and hardly slower with a faster link. A sample of budgets, links
// and duplex modes; with STOWAGE_TEST_EVERYTHING set, ten budgets and all of them (hours).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"
#include "tests/support/effort.h"
#include "tests/support/profiles.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

bool TestsEverything() { return std::getenv("STOWAGE_TEST_EVERYTHING") != nullptr; }

class OffloadProfiles : public testing::TestWithParam<std::string> {
 protected:
  OffloadProfiles() : chain_(LoadProfile(GetParam())) {}

  // In percent of the range; one of ten, another for every profile, unless all are asked for.
  std::vector<int> Budgets() const {
    constexpr int kBudgets[] = {5, 10, 15, 20, 30, 40, 50, 60, 75, 90};
    if (TestsEverything()) return {std::begin(kBudgets), std::end(kBudgets)};
    return {kBudgets[Draw() % std::size(kBudgets)]};
  }
  std::vector<bool> DuplexModes() const {
    if (TestsEverything()) return {false, true};
    return {Draw() / 16 % 2 == 0};
  }
  // GB/s, growing; two of three, unless all are asked for, and one for chains of hundreds of
  // stages.
  std::vector<double> Bandwidths() const {
    if (TestsEverything()) return {1, 12, 50};
    if (chain_.length() >= 200) return {12};
    if (IsThorough()) return {1, 12, 50};
    return Draw() / 32 % 2 == 0 ? std::vector<double>{1, 12} : std::vector<double>{12, 50};
  }
  Platform PlatformOf(int percent, double gigabytes_per_second, bool half_duplex) const {
    const int64_t low = FloorOfMemory(chain_).bytes;
    Platform platform;
    platform.memory_bytes = low + (StoreAllPeakBytes(chain_) - low) / 100 * percent;
    platform.offload_bytes_per_second = gigabytes_per_second * 1e9;
    platform.half_duplex = half_duplex;
    return platform;
  }

  double ValueBytes() const {
    auto bytes = static_cast<double>(chain_.input_bytes);
    for (int l = 1; l <= chain_.length(); ++l) bytes += static_cast<double>(chain_.saved_bytes(l));
    return bytes;
  }

  const Chain chain_;

 private:
  // The same for a profile on every machine.
  uint32_t Draw() const {
    uint32_t hash = 2166136261U;
    for (const char c : GetParam()) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619U;
    return hash >> 8;
  }
};

// What was tried, and how close it came to failing.
struct Tally {
  int schedules = 0;        // simulated, of all solvers
  int infeasible = 0;       // answers without one
  double min_gain = 1e9;    // of auto over the best of the others
  double max_gain = 0;      // likewise
  double max_slowdown = 0;  // of auto with a faster link
};

std::ostream& operator<<(std::ostream& out, const Tally& tally) {
  return out << tally.schedules << " schedules simulated, " << tally.infeasible
             << " answers infeasible; auto faster than the best of the others by "
             << absl::StrFormat("%.3f to %.3f %%, slower with a faster link by at most %.3f %%",
                                100 * tally.min_gain, 100 * tally.max_gain,
                                100 * tally.max_slowdown);
}

TEST_P(OffloadProfiles, AreSolvedByNobodyFasterThanByAuto) {
  Tally tally;
  for (const int percent : Budgets()) {
    for (const bool half_duplex : DuplexModes()) {
      double with_slower_link = 0;
      for (const double bandwidth : Bandwidths()) {
        const Platform platform = PlatformOf(percent, bandwidth, half_duplex);
        SCOPED_TRACE(testing::Message() << percent << " % at " << bandwidth << " GB/s, "
                                        << (half_duplex ? "half" : "full") << " duplex");
        const auto best = AnswerRequest({chain_, platform, "auto", {}}, {});
        ASSERT_THAT(best, IsOk());
        EXPECT_TRUE(best->rejected.empty());
        double others = std::numeric_limits<double>::infinity();
        for (const SolverInfo& info : AllSolvers()) {
          const std::string name = info.description.name;
          if (name == "auto") continue;
          const auto answer = AnswerRequest({chain_, platform, name, {}}, {});
          ASSERT_THAT(answer, IsOk()) << name;
          EXPECT_TRUE(answer->rejected.empty()) << name;
          if (answer->outcome == Outcome::kInfeasible) {
            ++tally.infeasible;
            continue;
          }
          ++tally.schedules;
          others = std::min(others, answer->prediction.makespan_seconds);
          ASSERT_NE(best->outcome, Outcome::kInfeasible) << name;
          EXPECT_LE(best->prediction.makespan_seconds,
                    answer->prediction.makespan_seconds * (1 + 1e-9))
              << name;
        }
        if (best->outcome == Outcome::kInfeasible) continue;
        ++tally.schedules;
        const double seconds = best->prediction.makespan_seconds;
        tally.min_gain = std::min(tally.min_gain, others / seconds - 1);
        tally.max_gain = std::max(tally.max_gain, others / seconds - 1);
        if (with_slower_link > 0) {
          EXPECT_LE(seconds, with_slower_link * 1.005);
          tally.max_slowdown = std::max(tally.max_slowdown, seconds / with_slower_link - 1);
        }
        with_slower_link = seconds;
      }
    }
  }
  if (TestsEverything()) std::cout << GetParam() << ": " << tally << std::endl;
}

// Its search for cuts ends everywhere, and never says more than what can be done.
TEST_P(OffloadProfiles, HaveABoundWhateverTheBudgetAndTheLink) {
  const double compute_seconds = ComputeSeconds(chain_);
  for (int percent = 3; percent < 100; percent += IsThorough() ? 7 : 28) {
    for (const double copied_in_a_step : {0.1, 0.3, 1.0, 3.0}) {  // of all values, one way
      const double bandwidth = copied_in_a_step * ValueBytes() / compute_seconds / 1e9;
      const Platform platform = PlatformOf(percent, bandwidth, /*half_duplex=*/true);
      SCOPED_TRACE(testing::Message() << percent << " % at " << bandwidth << " GB/s");
      const double bound = LowerBoundSeconds(chain_, platform);
      EXPECT_GE(bound, compute_seconds * (1 - 1e-9));
      const auto greedy = AnswerRequest({chain_, platform, "offload_greedy", {}}, {});
      ASSERT_THAT(greedy, IsOk());
      if (greedy->outcome == Outcome::kInfeasible) continue;
      EXPECT_LE(bound, greedy->prediction.makespan_seconds * (1 + 1e-9));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, OffloadProfiles, testing::ValuesIn(SampledProfiles()),
                         [](const testing::TestParamInfo<std::string>& entry) {
                           std::string name = entry.param;
                           for (char& c : name) {
                             if (c == '-') c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace stowage
