#include "solver/algorithms/solve_phase.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "solver/solve/answer_request.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Not;

struct SeenPhase {
  std::string name;
  std::optional<PhaseOutcome> outcome;  // nullopt: it has not ended
};

// What an observer of a solve sees, in its order; one phase at a time.
class SeenPhases {
 public:
  explicit SeenPhases(const SolveRequest& request, SolveContext context = {}) {
    const PhaseObserver observer = {.begun = [this](const char* name) { Begin(name); },
                                    .ended = [this](PhaseOutcome outcome) { End(outcome); }};
    context.phases = &observer;
    status_ = AnswerRequest(request, context).status();
    EXPECT_TRUE(HasAllEnded());
  }

  const std::vector<SeenPhase>& all() const { return phases_; }
  const absl::Status& status() const { return status_; }
  // Of the first phase of that name; nullopt: there is none.
  std::optional<PhaseOutcome> OutcomeOf(const std::string& name) const {
    for (const SeenPhase& phase : phases_) {
      if (phase.name == name) return phase.outcome;
    }
    return std::nullopt;
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const SeenPhase& phase : phases_) names.push_back(phase.name);
    return names;
  }

 private:
  bool HasAllEnded() const { return phases_.empty() || phases_.back().outcome.has_value(); }
  void Begin(const char* name) {
    EXPECT_TRUE(HasAllEnded()) << name << " begins within another";
    phases_.push_back({name, std::nullopt});
  }
  void End(PhaseOutcome outcome) {
    ASSERT_FALSE(HasAllEnded());
    phases_.back().outcome = outcome;
  }

  std::vector<SeenPhase> phases_;
  absl::Status status_;
};

Platform MemoryWithLink(int64_t bytes) {
  Platform platform = Memory(bytes);
  platform.offload_bytes_per_second = 10;
  return platform;
}

TEST(SolvePhases, AreTheSolversThatAutoRunsAndTheBound) {
  const SeenPhases seen({EqualChain(20), Memory(300), "auto", {}});
  EXPECT_THAT(seen.status(), IsOk());
  EXPECT_THAT(seen.Names(), IsSupersetOf({"periodic", "rotor", "local_search", "bound"}));
  EXPECT_THAT(seen.Names(), Not(Contains("pofo"))) << "there is no link";
  const SeenPhases linked({EqualChain(20), MemoryWithLink(300), "auto", {}});
  EXPECT_THAT(linked.Names(),
              IsSupersetOf({"rotor", "autocapper", "pofo", "local_search", "bound"}));
}

TEST(SolvePhases, OfAnotherSolverAreTheBoundAlone) {
  EXPECT_THAT(SeenPhases({EqualChain(20), Memory(300), "rotor", {}}).Names(), ElementsAre("bound"));
}

TEST(SolvePhases, OfALongChainAreThoseOfItsMergedChain) {
  const SeenPhases seen({EqualChain(250), MemoryWithLink(1500), "auto", {}});
  EXPECT_THAT(seen.status(), IsOk());
  EXPECT_THAT(seen.Names(), IsSupersetOf({"rotor", "local_search", "bound"}));
}

TEST(SolvePhases, OfAChainWithAGraphModeAreThoseOfEachChoiceOfModes) {
  Chain chain = EqualChain(12);
  for (Stage& stage : chain.stages) {
    stage.graph = GraphCosts{.forward_seconds = 0.8, .backward_seconds = 1.6, .saved_bytes = 40};
  }
  const SeenPhases seen({chain, Memory(220), "auto", {}});
  EXPECT_THAT(seen.status(), IsOk());
  EXPECT_THAT(seen.Names(), IsSupersetOf({"rotor", "mixed_mode", "mode_search", "bound"}));
}

TEST(SolvePhases, SayWhetherTheyFoundABetterSchedule) {
  const SeenPhases seen({EqualChain(20), Memory(300), "auto", {}});
  EXPECT_EQ(seen.OutcomeOf("store_all"), PhaseOutcome::kNoBetter) << "it does not fit";
  EXPECT_EQ(seen.OutcomeOf("periodic"), PhaseOutcome::kBetter) << "than none";
}

TEST(SolvePhases, AreStoppedWithTheSolve) {
  std::stop_source stop;
  SolveContext context;
  context.stop = stop.get_token();
  // Once there is a schedule, of a later phase.
  context.progress = [&](double fraction) {
    if (fraction > 0.3) stop.request_stop();
  };
  const SeenPhases seen({EqualChain(60), MemoryWithLink(500), "auto", {}}, context);
  EXPECT_THAT(seen.status(), Fails(absl::StatusCode::kCancelled, testing::_));
  EXPECT_EQ(seen.OutcomeOf("periodic"), PhaseOutcome::kBetter);
  ASSERT_FALSE(seen.all().empty());
  EXPECT_EQ(seen.all().back().outcome, PhaseOutcome::kStopped);
}

}  // namespace
}  // namespace stowage
