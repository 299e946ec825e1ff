// POFO's program implemented literally (tests/support/literal_pofo.h), against a brute force over
// every program with relaxed transfers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rapidcheck/gtest.h"
#include "solver/simulator/simulator.h"
#include "tests/support/brute_force.h"
#include "tests/support/chains.h"
#include "tests/support/linked_chains.h"
#include "tests/support/literal_pofo.h"
#include "tests/support/relaxed_search.h"

namespace stowage {
namespace {

std::vector<int> OffloadedBy(const LiteralPofo& answer) {
  std::vector<int> values;
  for (const LiteralPofoPart& part : answer.parts) {
    if (part.offloads_input) values.push_back(part.first - 1);
  }
  return values;
}

bool Close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); }

RC_GTEST_PROP(RelaxedPofo, HasExactlyTheMakespanOfTheBruteForce, ()) {
  const Chain chain = DrawLinkedChain(5);
  const Platform platform = DrawLinkedPlatform(chain);
  const auto fastest = FastestRelaxed(chain, platform);
  const auto literal = LiteralPofoInBytes(chain, platform);
  RC_CLASSIFY(!fastest.has_value(), "infeasible");
  RC_CLASSIFY(fastest.has_value() && !fastest->program.offloaded.empty(), "offloads");
  RC_CLASSIFY(fastest.has_value() &&
                  fastest->program.computation.operations.size() > 2 * chain.stages.size() + 2,
              "recomputes");
  RC_ASSERT(literal.has_value() == fastest.has_value());
  if (literal.has_value()) RC_ASSERT(Close(literal->seconds, fastest->seconds));
}

// One random chain in tens of thousands: a sweep of the backward phase, C2 D3 here, whose first
// operation waits for memory, while the operations after it overlap with copies.
TEST(RelaxedPofo, CountsWhatIsPrefetchedDuringTheRestOfASweep) {
  // clang-format off
  constexpr int kStages[5][7] = {
      // uF uB  a  ā  δ  oF oB
      {  0, 0, 4, 16, 0,  0, 0},
      {  2, 4, 6,  7, 6, 15, 0},
      {  3, 2, 1,  7, 0,  0, 1},
      {  0, 2, 3,  3, 6,  0, 0},
      {  0, 5, 6,  6, 6,  0, 7},
  };
  // clang-format on
  Chain chain;
  chain.input_bytes = 6;
  for (const auto& [u_f, u_b, a, saved, delta, o_f, o_b] : kStages) {
    chain.stages.push_back({"", static_cast<double>(u_f), static_cast<double>(u_b), a, saved, delta,
                            o_f, o_b, false, false});
  }
  Platform platform = Memory(33);
  platform.offload_bytes_per_second = 4;
  platform.prefetch_bytes_per_second = 0.25;
  const auto literal = LiteralPofoInBytes(chain, platform);
  ASSERT_TRUE(literal.has_value());
  EXPECT_EQ(literal->computation, Ops("C1 C2 D3 D4 S5 S6 B6 B5 C2 D3 S4 B4 S2 S3 B3 B2 S1 B1"));
  EXPECT_EQ(OffloadedBy(*literal), std::vector<int>{0});
  EXPECT_DOUBLE_EQ(literal->seconds, FastestRelaxed(chain, platform)->seconds);
}

RC_GTEST_PROP(RelaxedPofo, TakesAsLongAsItSays, ()) {
  const Chain chain = DrawLinkedChain(6);
  const Platform platform = DrawLinkedPlatform(chain);
  const auto literal = LiteralPofoInBytes(chain, platform);
  RC_PRE(literal.has_value());
  const auto seconds =
      RelaxedSeconds(chain, platform, {literal->computation, OffloadedBy(*literal)});
  RC_ASSERT(seconds.has_value());
  RC_ASSERT(Close(*seconds, literal->seconds));
}

// Rounding up to slots may lose time and solutions, but its value is always attainable.
RC_GTEST_PROP(RelaxedPofo, InSlotsIsNeverFasterThanInBytes, ()) {
  const Chain chain = DrawLinkedChain(5);
  const Platform platform = DrawLinkedPlatform(chain);
  const auto exact = LiteralPofoInBytes(chain, platform);
  const auto rounded = LiteralPofoInSlots(chain, platform, static_cast<int>(DrawBetween(1, 40)));
  RC_CLASSIFY(rounded.has_value() && rounded->seconds > exact->seconds, "loses time");
  RC_CLASSIFY(exact.has_value() && !rounded.has_value(), "loses the solution");
  if (!rounded.has_value()) return;
  RC_ASSERT(exact.has_value());
  RC_ASSERT(rounded->seconds >= exact->seconds * (1 - 1e-9));
  const auto seconds =
      RelaxedSeconds(chain, platform, {rounded->computation, OffloadedBy(*rounded)});
  RC_ASSERT(seconds.has_value());
  RC_ASSERT(*seconds <= rounded->seconds * (1 + 1e-9));
}

// `computation` with whole transfers: every value of `offloaded` leaves before the loss's backward
// and comes back after its forward, at moments drawn at random.
Schedule WithWholeTransfers(const Schedule& computation, const std::vector<int>& offloaded,
                            int loss) {
  const std::vector<Operation>& operations = computation.operations;
  const auto place = [&operations](OperationKind kind, int stage) {
    return std::find(operations.begin(), operations.end(), Operation{kind, stage}) -
           operations.begin();
  };
  const int64_t turn = place(OperationKind::kBackward, loss);
  // What to insert before each operation, by kind: offloads, releases, prefetches.
  std::vector<std::vector<Operation>> before[3];
  for (auto& kind : before) kind.resize(operations.size());
  for (const int value : offloaded) {
    int64_t made = -1;   // the operation that makes the value
    int64_t read = 0;    // the last one of the forward phase that reads it
    int64_t needed = 0;  // the first one of the backward phase that reads it
    for (int64_t i = 0; i < turn; ++i) {
      if (operations[i].stage == value) made = i;
      if (operations[i].stage == value + 1) read = i;
    }
    for (int64_t i = turn; needed == 0; ++i) {
      if (operations[i].stage == value + 1) needed = i;
    }
    const int64_t offload = DrawBetween(made + 1, turn);
    before[0][offload].push_back({OperationKind::kOffload, value});
    before[1][DrawBetween(std::max(offload, read + 1), turn)].push_back(
        {OperationKind::kRelease, value});
    before[2][DrawBetween(turn, needed)].push_back({OperationKind::kPrefetch, value});
  }
  Schedule result;
  for (size_t i = 0; i < operations.size(); ++i) {
    for (const auto& kind : before) {
      result.operations.insert(result.operations.end(), kind[i].begin(), kind[i].end());
    }
    result.operations.push_back(operations[i]);
  }
  return result;
}

// The relaxation against the simulator: with the memory that a schedule needs and one link for both
// directions, the relaxed program takes no longer than the schedule.
RC_GTEST_PROP(RelaxedPofo, IsNoSlowerThanTheSameProgramWithWholeTransfers, ()) {
  const Chain chain = DrawLinkedChain(6);
  Platform platform = DrawLinkedPlatform(chain);
  platform.half_duplex = true;
  const auto literal = LiteralPofoInBytes(chain, platform);
  RC_PRE(literal.has_value());
  std::vector<int> offloaded;
  for (const LiteralPofoPart& part : literal->parts) {
    const bool fixed = part.first > 1 && chain.stage(part.first - 1).no_offload;
    if (!fixed && *rc::gen::arbitrary<bool>()) offloaded.push_back(part.first - 1);
  }
  const Schedule whole = WithWholeTransfers(literal->computation, offloaded, chain.length() + 1);
  const auto simulation = Simulate(chain, platform, whole);
  RC_ASSERT(simulation.ok());
  RC_CLASSIFY(!offloaded.empty(), "offloads");
  platform.memory_bytes = simulation->prediction.peak_memory_bytes;
  const auto seconds = RelaxedSeconds(chain, platform, {literal->computation, offloaded});
  RC_ASSERT(seconds.has_value());
  RC_ASSERT(*seconds <= simulation->prediction.makespan_seconds * (1 + 1e-9));
}

RC_GTEST_PROP(RelaxedPofo, WithoutALinkIsRotor, ()) {
  const Chain chain = DrawLinkedChain(5);
  Platform platform = DrawLinkedPlatform(chain);
  if (*rc::gen::arbitrary<bool>()) {
    platform.prefetch_bytes_per_second = 0;  // nothing could be prefetched again
  } else {
    platform.offload_bytes_per_second = 0;
  }
  const auto fastest =
      FastestByBruteForce(chain, platform.memory_bytes, ScheduleClass::kNestedPersistent);
  const auto literal = LiteralPofoInBytes(chain, platform);
  RC_ASSERT(literal.has_value() == fastest.has_value());
  if (!literal.has_value()) return;
  RC_ASSERT(literal->seconds == fastest->seconds);
  RC_ASSERT(OffloadedBy(*literal).empty());
}

}  // namespace
}  // namespace stowage
