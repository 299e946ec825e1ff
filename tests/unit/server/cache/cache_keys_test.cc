#include "server/cache/cache_keys.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/support/chains.h"
#include "tests/support/forged_requests.h"

namespace stowage {
namespace {

SolveRequest Request() {
  Platform platform = Memory(int64_t{1} << 30);
  platform.offload_bytes_per_second = 12e9;
  Chain chain = EqualChain(5);
  for (Stage& stage : chain.stages) stage.saved_bytes = 300'000'000;
  return {chain, platform, "rotor", {.time_precision = 0.01}};
}

CacheKeys KeysOfRequest(const SolveRequest& request) {
  return CacheKeysOf(request, Instance::Rounded(request));
}

// The keys of the request after `change`.
template <typename Change>
CacheKeys After(Change change) {
  SolveRequest request = Request();
  change(request);
  return KeysOfRequest(request);
}

// A literal, because a change of the keys makes every cached answer a miss.
TEST(Fingerprint, IsTheSameInEveryProcess) {
  EXPECT_EQ(ToHex(KeysOfRequest(Request()).rounded),
            "0c0c0a05bcfbd33eb6468414d389198e36459fbf65ebc837fb774c10b69940ab");
  EXPECT_EQ(ToHex({{1, 0xab}}), "01ab" + std::string(60, '0'));
}

TEST(Fingerprint, CannotBeForged) {
  const CacheKeys victim = KeysOfRequest(VictimRequest());
  const CacheKeys forged = KeysOfRequest(ForgedRequest());
  EXPECT_FALSE(victim.rounded == forged.rounded);
  EXPECT_FALSE(victim.exact_sizes == forged.exact_sizes);
  EXPECT_FALSE(victim.exact == forged.exact);
}

TEST(Fingerprint, TellsTheSmallestAndLargestTimesApart) {
  const auto scaled = [](double factor, double first) {
    return After([=](SolveRequest& request) {
             for (Stage& stage : request.chain.stages) stage.forward_seconds = factor;
             request.chain.stages[0].forward_seconds = first * factor;
           })
        .rounded;
  };
  for (const double factor : {1e-300, 1e-60, 1.0, 1e60}) {
    EXPECT_FALSE(scaled(factor, 2) == scaled(factor, 3)) << factor;
    EXPECT_EQ(scaled(factor, 2), scaled(factor, 2.0001)) << factor;
  }
}

TEST(Fingerprint, NamesDoNotCount) {
  const CacheKeys renamed = After([](SolveRequest& request) {
    request.chain.name = "another";
    request.chain.stages[2].name = "layer";
    request.platform.name = "V100";
  });
  EXPECT_EQ(renamed.exact, KeysOfRequest(Request()).exact);
}

TEST(Fingerprint, NoiseCountsOnlyInTheExactOne) {
  const CacheKeys original = KeysOfRequest(Request());
  const CacheKeys noisy =
      After([](SolveRequest& request) { request.chain.stages[1].forward_seconds *= 1.0001; });
  EXPECT_EQ(noisy.rounded, original.rounded);
  EXPECT_EQ(noisy.exact_sizes, original.exact_sizes);
  EXPECT_FALSE(noisy.exact == original.exact);
  // A granule is a KiB here.
  const CacheKeys smaller =
      After([](SolveRequest& request) { request.chain.stages[1].saved_bytes -= 1; });
  EXPECT_EQ(smaller.rounded, original.rounded);
  EXPECT_FALSE(smaller.exact_sizes == original.exact_sizes);
}

TEST(Fingerprint, EverythingElseCounts) {
  const Fingerprint original = KeysOfRequest(Request()).rounded;
  const auto expect_other = [&](auto change) { EXPECT_FALSE(After(change).rounded == original); };
  expect_other([](SolveRequest& request) { request.solver = "auto"; });
  expect_other([](SolveRequest& request) { request.options.memory_slots = 100; });
  expect_other([](SolveRequest& request) { request.options.time_precision = 0.02; });
  expect_other([](SolveRequest& request) { request.options.report_rounding_loss = true; });
  expect_other([](SolveRequest& request) { request.platform.memory_bytes *= 2; });
  expect_other([](SolveRequest& request) { request.platform.half_duplex = true; });
  expect_other([](SolveRequest& request) { request.platform.host_memory_bytes = 1 << 20; });
  expect_other([](SolveRequest& request) { request.platform.offload_bytes_per_second *= 2; });
  expect_other([](SolveRequest& request) { request.platform.prefetch_bytes_per_second = 1e9; });
  expect_other([](SolveRequest& request) { request.platform.transfer_latency_seconds = 1e-5; });
  expect_other([](SolveRequest& request) { request.chain.stages.pop_back(); });
  expect_other([](SolveRequest& request) { request.chain.stages[0].forward_seconds *= 2; });
  expect_other([](SolveRequest& request) { request.chain.stages[0].no_recompute = true; });
  expect_other([](SolveRequest& request) { request.chain.stages[0].no_offload = true; });
  expect_other([](SolveRequest& request) { request.chain.loss.backward_seconds += 1; });
  expect_other([](SolveRequest& request) { request.chain.stages[0].replay_seconds = 0; });
  expect_other([](SolveRequest& request) { request.chain.stages[0].input_unread = true; });
  expect_other(
      [](SolveRequest& request) { request.chain.stages[0].save_overhead_bytes = 7 << 20; });
  expect_other([](SolveRequest& request) { request.chain.stages[0].save_options.resize(1); });
  expect_other([](SolveRequest& request) { request.chain.input_bytes += 1 << 20; });
}

TEST(Fingerprint, WaysToSaveCountButNotTheirNames) {
  const auto keys = [](SaveOption option) {
    return After([&option](SolveRequest& request) {
      request.chain.loss.save_options = {std::move(option)};
    });
  };
  const SaveOption option{"norms", 300'000'000, 4, 2 << 20};
  const Fingerprint original = keys(option).exact;
  EXPECT_EQ(keys({"", 300'000'000, 4, 2 << 20}).exact, original);
  EXPECT_FALSE(keys({"norms", 200'000'000, 4, 2 << 20}).exact == original);
  EXPECT_FALSE(keys({"norms", 300'000'000, 5, 2 << 20}).exact == original);
  EXPECT_FALSE(keys({"norms", 300'000'000, 4, 3 << 20}).exact == original);
  EXPECT_FALSE(keys({"norms", 300'000'000, 4, 2 << 20, 0}).exact == original);
}

// An overhead that is not set is the stage's own, and not 0.
TEST(Fingerprint, CountsWhichWayToSaveHasAnOverheadOfItsOwn) {
  const auto keys = [](size_t which) {
    return After([which](SolveRequest& request) {
      request.chain.loss.save_options.resize(2);
      request.chain.loss.save_options[which].save_overhead_bytes = 0;
    });
  };
  EXPECT_FALSE(keys(0).exact == keys(1).exact);
  EXPECT_FALSE(keys(0).rounded == keys(1).rounded);
}

TEST(Fingerprint, GraphCostsAndGroupsCountButNotTheirNames) {
  const auto with_graph = [](SolveRequest& request) {
    request.solver = "auto";
    request.chain.graph_entry_seconds = 1;
    for (Stage& stage : request.chain.stages) {
      stage.graph = GraphCosts{1, 2, 300'000'000, 3 << 20, 4 << 20};
    }
    request.chain.stages[2].fusion_group = request.chain.stages[3].fusion_group = "a";
  };
  const CacheKeys original = After(with_graph);
  const auto keys = [&with_graph](auto change) {
    return After([&](SolveRequest& request) {
      with_graph(request);
      change(request.chain);
    });
  };
  const auto expect_other = [&](auto change) {
    EXPECT_FALSE(keys(change).rounded == original.rounded);
    EXPECT_FALSE(keys(change).exact == original.exact);
  };
  expect_other([](Chain& chain) { chain.graph_entry_seconds = 2; });
  expect_other([](Chain& chain) { chain.stages[0].graph.reset(); });
  expect_other([](Chain& chain) { chain.stages[0].control_flow = true; });
  expect_other([](Chain& chain) { chain.stages[2].fusion_group.clear(); });
  expect_other([](Chain& chain) { chain.stages[4].fusion_group = "a"; });
  expect_other([](Chain& chain) { chain.stages[0].graph->forward_seconds = 2; });
  expect_other([](Chain& chain) { chain.stages[0].graph->backward_seconds = 1; });
  expect_other([](Chain& chain) { chain.stages[0].graph->saved_bytes *= 2; });
  expect_other([](Chain& chain) { chain.stages[0].graph->forward_overhead_bytes *= 2; });
  expect_other([](Chain& chain) { chain.stages[0].graph->backward_overhead_bytes *= 2; });
  const CacheKeys renamed = keys([](Chain& chain) {
    chain.stages[2].fusion_group = chain.stages[3].fusion_group = "b";
    chain.stages[4].fusion_group = "alone";
  });
  EXPECT_EQ(renamed.rounded, original.rounded);
}

// They are layers.
TEST(Fingerprint, GroupsOfSeveralStagesCountWithoutGraphCosts) {
  const auto keys = [](const char* third, const char* fourth) {
    return After([&](SolveRequest& request) {
      request.chain.stages[2].fusion_group = third;
      request.chain.stages[3].fusion_group = fourth;
    });
  };
  EXPECT_FALSE(keys("a", "a").rounded == keys("", "").rounded);
  EXPECT_EQ(keys("a", "a").rounded, keys("b", "b").rounded);
  EXPECT_EQ(keys("a", "b").rounded, keys("", "").rounded);
}

TEST(Fingerprint, OptionsThatASolverDoesNotReadDoNotCount) {
  const CacheKeys segments = After([](SolveRequest& request) { request.options.segments = 3; });
  EXPECT_EQ(segments.rounded, KeysOfRequest(Request()).rounded);
}

TEST(Fingerprint, WithoutPrecisionNothingIsRounded) {
  const auto exact = [](SolveRequest& request) { request.options.time_precision = 0; };
  const auto noisy = [&exact](SolveRequest& request) {
    exact(request);
    request.chain.stages[1].forward_seconds *= 1 + 1e-9;
  };
  EXPECT_FALSE(After(exact).rounded == After(noisy).rounded);
}

}  // namespace
}  // namespace stowage
