// Tables filled by every target of this machine must equal those of the scalar version bit by bit.
// property/rotor_table_test.cc checks that their values are correct.
#include "solver/kernels/min_plus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "solver/algorithms/rematerialization/rotor_table.h"
#include "solver/base/thread_pool.h"
#include "solver/bounds/memory_range.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

class MinPlus : public testing::Test {
 protected:
  void TearDown() override { SetMinPlusTarget("best"); }
};

struct ChainKind {
  const char* name;
  int max_output = 0;    // bytes
  int max_gradient = 0;  // 0: as large as the output
  bool grows = false;    // the sizes, along the chain
  bool equal = false;    // every stage like the first
  bool whole_times = true;
  bool fixed_stages = false;  // one in eight is no_recompute
  bool replays = false;       // replays take no more than forwards
  int max_ways = 0;           // save_options of a stage
};

constexpr ChainKind kKinds[] = {
    {.name = "equal", .max_output = 4, .equal = true},
    {.name = "growing", .max_output = 6, .grows = true},
    {.name = "with_zeros", .max_output = 3, .fixed_stages = true},
    {.name = "of_odd_times", .max_output = 5, .whole_times = false},
    // Large gradients: the need of a sweep then depends mostly on the held gradient.
    {.name = "with_large_gradients", .max_output = 3, .max_gradient = 40},
    {.name = "of_all_sorts",
     .max_output = 5,
     .max_gradient = 20,
     .whole_times = false,
     .fixed_stages = true},
    {.name = "with_replays", .max_output = 5, .whole_times = false, .replays = true},
    {.name = "with_save_options", .max_output = 5, .whole_times = false, .max_ways = 5},
    {.name = "with_save_options_and_more",
     .max_output = 5,
     .max_gradient = 20,
     .fixed_stages = true,
     .replays = true,
     .max_ways = 3},
};

void PrintTo(const ChainKind& kind, std::ostream* out) { *out << kind.name; }

// std::mt19937 is the same everywhere, the distributions of <random> are not.
class Random {
 public:
  explicit Random(uint32_t seed) : bits_(seed) {}

  int UpTo(int most) { return static_cast<int>(bits_() % static_cast<uint32_t>(most + 1)); }
  double Seconds(bool whole) { return whole ? UpTo(5) : UpTo(1000) / 300.0; }

 private:
  std::mt19937 bits_;
};

void AddWays(const ChainKind& kind, Random* random, Stage* stage) {
  if (kind.max_ways == 0) return;
  for (int left = random->UpTo(kind.max_ways); left > 0; --left) {
    const auto spared = static_cast<int>(stage->saved_bytes - stage->output_bytes);
    stage->save_options.push_back(
        {.saved_bytes = stage->saved_bytes - random->UpTo(spared),
         .backward_seconds = stage->backward_seconds + random->Seconds(kind.whole_times) / 2,
         .backward_overhead_bytes = random->UpTo(9)});
  }
}

Chain MakeChain(const ChainKind& kind, int stages) {
  Random random(static_cast<uint32_t>(stages));
  Chain chain;
  chain.input_bytes = random.UpTo(kind.max_output);
  for (int l = 1; l <= stages; ++l) {
    Stage stage;
    stage.forward_seconds = random.Seconds(kind.whole_times);
    stage.backward_seconds = random.Seconds(kind.whole_times);
    stage.output_bytes = random.UpTo(kind.max_output) + (kind.grows ? l / 10 : 0);
    stage.saved_bytes = stage.output_bytes + random.UpTo(2 * kind.max_output);
    if (kind.max_gradient > 0) stage.gradient_bytes = random.UpTo(kind.max_gradient);
    stage.forward_overhead_bytes = random.UpTo(2) == 0 ? random.UpTo(9) : 0;
    stage.backward_overhead_bytes = random.UpTo(2) == 0 ? random.UpTo(9) : 0;
    stage.no_recompute = kind.fixed_stages && random.UpTo(7) == 0;
    if (kind.replays) stage.replay_seconds = stage.forward_seconds * random.UpTo(4) / 4;
    AddWays(kind, &random, &stage);
    if (kind.equal && l > 1) stage = chain.stages[0];
    chain.stages.push_back(stage);
  }
  AddWays(kind, &random, &chain.loss);
  return chain;
}

// One slot per byte if that makes at most `max_slots`; otherwise sizes are rounded up.
RotorTable::Options TableOf(const Chain& chain, int64_t max_slots, Saving saving) {
  const int64_t bytes = StoreAllPeakBytes(chain);
  const int64_t slots = std::min(bytes, max_slots);
  return {{bytes, slots, SlotGrid::Rounding::kUp}, slots, saving};
}

struct Contents {
  std::vector<std::optional<double>> lost;  // by level
  std::vector<Schedule> schedules;          // of a few levels

  bool operator==(const Contents&) const = default;
};

Contents ContentsOf(const Chain& chain, const RotorTable::Options& options,
                    const std::string& target, const SolveContext& context = {}) {
  EXPECT_TRUE(SetMinPlusTarget(target));
  const absl::StatusOr<RotorTable> table = RotorTable::Build(chain, options, context);
  EXPECT_THAT(table, IsOk());
  Contents contents;
  for (int64_t level = options.lowest_level; level <= options.levels; ++level) {
    contents.lost.push_back(table->LostSecondsAt(level));
    if (level % 16 == 0)
      contents.schedules.push_back(table->ScheduleAt(level).value_or(Schedule{}));
  }
  return contents;
}

class MinPlusTables : public MinPlus, public testing::WithParamInterface<ChainKind> {};

TEST_P(MinPlusTables, OfEveryTargetEqualTheScalarTwinToTheBit) {
  const std::vector<std::string> targets = MinPlusTargets();
  for (int stages = 1; stages <= 70; ++stages) {
    const Chain chain = MakeChain(GetParam(), stages);
    const int64_t high = StoreAllPeakBytes(chain);
    for (const Saving saving : {Saving::kAlways, Saving::kWhereForced}) {
      RotorTable::Options tight = TableOf(chain, 200, saving);
      tight.levels = tight.grid.Slots(FloorOfMemory(chain).bytes + high / 8);
      for (const RotorTable::Options& options : {tight, TableOf(chain, 100, saving)}) {
        const Contents expected = ContentsOf(chain, options, "scalar");
        for (const std::string& target : targets) {
          if (target == "scalar") continue;
          const Contents contents = ContentsOf(chain, options, target);
          ASSERT_EQ(contents.lost, expected.lost) << target << ' ' << chain;
          ASSERT_EQ(contents.schedules, expected.schedules) << target << ' ' << chain;
        }
      }
    }
  }
}

// A table with a lowest level equals the full table at every level above it.
TEST_P(MinPlusTables, AreTheSameFromTheirLowestLevelOn) {
  const std::vector<std::string> targets = MinPlusTargets();
  for (int stages = 1; stages <= 70; stages += 3) {
    const Chain chain = MakeChain(GetParam(), stages);
    for (const Saving saving : {Saving::kAlways, Saving::kWhereForced}) {
      RotorTable::Options options = TableOf(chain, 200, saving);
      options.levels = options.levels * 3 / 5;
      options.lowest_level = 0;
      const Contents all = ContentsOf(chain, options, "best");
      for (int64_t lowest = options.levels / 16 * 16; lowest >= 0; lowest -= 48) {
        options.lowest_level = lowest;
        Contents expected = all;
        expected.lost.erase(expected.lost.begin(), expected.lost.begin() + lowest);
        expected.schedules.erase(expected.schedules.begin(),
                                 expected.schedules.begin() + lowest / 16);
        for (const std::string& target : targets) {
          const Contents contents = ContentsOf(chain, options, target);
          ASSERT_EQ(contents.lost, expected.lost) << target << ' ' << chain;
          ASSERT_EQ(contents.schedules, expected.schedules) << target << ' ' << chain;
        }
      }
    }
  }
}

TEST_P(MinPlusTables, AreTheSameWithHelpers) {
  ThreadPool helpers(3);
  SolveContext context;
  context.threads = &helpers;
  const Chain chain = MakeChain(GetParam(), 150);  // five tiles a side
  const RotorTable::Options options = TableOf(chain, 200, Saving::kAlways);
  const Contents alone = ContentsOf(chain, options, "best");
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(ContentsOf(chain, options, "best", context) == alone);
  }
}

INSTANTIATE_TEST_SUITE_P(Chains, MinPlusTables, testing::ValuesIn(kKinds),
                         [](const auto& test) { return test.param.name; });

TEST_F(MinPlus, RunsOnTheScalarTwinAndOnOneTargetAtLeast) {
  const std::vector<std::string> targets = MinPlusTargets();
  EXPECT_EQ(std::count(targets.begin(), targets.end(), "scalar"), 1);
  EXPECT_GE(targets.size(), 2U);
}

TEST_F(MinPlus, RefusesATargetThatIsNotThere) {
  EXPECT_FALSE(SetMinPlusTarget("AVX9000"));
  EXPECT_FALSE(SetMinPlusTarget(""));
}

}  // namespace
}  // namespace stowage
