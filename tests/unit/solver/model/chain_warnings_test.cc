#include "solver/model/chain_warnings.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/chains.h"
#include "tests/support/profiles.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> Reasons(const Chain& chain) {
  std::vector<std::string> reasons;
  for (const ChainWarning& warning : ChainWarnings(chain)) reasons.push_back(warning.reason);
  return reasons;
}

// EqualChain(stages) with names of one kind.
Chain NamedChain(int stages) {
  Chain chain = EqualChain(stages);
  for (int i = 0; i < stages; ++i) chain.stages[i].name = absl::StrCat("layer", i, ".conv");
  return chain;
}

TEST(ChainWarnings, AreNoneForRealProfiles) {
  for (const std::string& name : AllProfiles()) {
    EXPECT_THAT(Reasons(LoadProfile(name)), IsEmpty()) << name;
  }
}

TEST(ChainWarnings, NameWhatWentWrongInMismeasuredProfiles) {
  EXPECT_THAT(Reasons(LoadProfile("suspicious/piper-gnmt-milliseconds")),
              ElementsAre(kStepLong, kTimesDiffer, kSavedEqualsOutput));
  EXPECT_THAT(Reasons(LoadProfile("suspicious/varuna-bert-async-timer")),
              ElementsAre(kBackwardLong));
  EXPECT_THAT(Reasons(LoadProfile("suspicious/varuna-bert-first-batch")),
              ElementsAre(kBackwardShort));
  EXPECT_THAT(Reasons(LoadProfile("suspicious/varuna-bert-noisy")),
              ElementsAre(kBackwardLong, kTimesDiffer));
}

TEST(ChainWarnings, NameTheFieldTheValueAndTheRemedy) {
  Chain chain = EqualChain(3);
  for (const size_t i : {1, 2}) chain.stages[i].backward_seconds = 6.5;
  EXPECT_THAT(
      ChainWarnings(chain),
      ElementsAre(ChainWarning{
          "chain.stages[1].backward_seconds", kBackwardLong,
          "is 6.500 s, the forward 1.000 s; of 3 stages 0 take less than half as long backward as "
          "forward, and 2 more than six times as long: let the timer wait for the device before "
          "each reading, as torch.cuda.synchronize() does, so that no forward's work counts as a "
          "backward's"}));
}

TEST(ChainWarnings, OfBackwardsNeedMostStages) {
  Chain chain = EqualChain(4);
  for (const double backward : {0.5, 6.0}) {  // allowed in all stages
    for (Stage& stage : chain.stages) stage.backward_seconds = backward;
    EXPECT_THAT(Reasons(chain), IsEmpty()) << backward;
  }
  chain = EqualChain(4);
  chain.stages[0].backward_seconds = 0.49;
  chain.stages[3].backward_seconds = 6.01;
  EXPECT_THAT(Reasons(chain), IsEmpty());
  chain.stages[2].backward_seconds = 0.49;
  EXPECT_THAT(Reasons(chain), ElementsAre(kBackwardShort));
  chain.stages[1].backward_seconds = chain.stages[2].backward_seconds = 6.01;
  EXPECT_THAT(Reasons(chain), ElementsAre(kBackwardLong));
  // Stages without any time do not count.
  chain = EqualChain(4);
  chain.stages[0].backward_seconds = 0.49;
  for (const size_t i : {1, 2, 3}) {
    chain.stages[i].forward_seconds = chain.stages[i].backward_seconds = 0;
  }
  EXPECT_THAT(Reasons(chain), ElementsAre(kBackwardShort));
}

TEST(ChainWarnings, OfFreeBackwardsAskForTheirTimes) {
  Chain chain = EqualChain(3);
  for (Stage& stage : chain.stages) stage.backward_seconds = 0;
  ASSERT_THAT(Reasons(chain), ElementsAre(kBackwardShort));
  EXPECT_THAT(ChainWarnings(chain)[0].problem, testing::HasSubstr("set backward_seconds"));
}

TEST(ChainWarnings, OfTimesComparePairsOfOneKind) {
  Chain chain = NamedChain(4);
  chain.stages[2].backward_seconds = 20;
  EXPECT_THAT(Reasons(chain), IsEmpty());
  chain.stages[2].backward_seconds = 20.1;
  ASSERT_THAT(Reasons(chain), ElementsAre(kTimesDiffer));
  EXPECT_EQ(ChainWarnings(chain)[0].field, "chain.stages[2].backward_seconds");
  Chain other = chain;
  other.stages[2].name = "layer2.relu";
  EXPECT_THAT(Reasons(other), IsEmpty());
  other = chain;
  other.stages[2].saved_bytes += 1;
  EXPECT_THAT(Reasons(other), IsEmpty());
  // Numbers alone are no kind: they say nothing about a layer.
  for (size_t i = 0; i < chain.stages.size(); ++i) chain.stages[i].name = absl::StrCat(i, ".", i);
  EXPECT_THAT(Reasons(chain), IsEmpty());
  for (Stage& stage : chain.stages) stage.name.clear();
  EXPECT_THAT(Reasons(chain), IsEmpty());
}

TEST(ChainWarnings, OfTimesLeaveOutTheNoiseOfShortOnes) {
  Chain chain = NamedChain(4);
  chain.loss.forward_seconds = 80;
  for (Stage& stage : chain.stages) stage.forward_seconds = stage.backward_seconds = 0.001;
  chain.stages[1].forward_seconds = 0.0799;  // of a step of 80.09 s
  EXPECT_THAT(Reasons(chain), IsEmpty());
  chain.stages[1].forward_seconds = 0.0802;
  EXPECT_THAT(Reasons(chain), ElementsAre(kTimesDiffer));
}

TEST(ChainWarnings, FindOneKindAmongHundreds) {
  Chain chain = EqualChain(1000);
  for (size_t i = 0; i < chain.stages.size(); ++i) {
    Stage& stage = chain.stages[i];
    stage.name = "block";
    stage.output_bytes += static_cast<int64_t>(i / 2);  // pairs
    stage.saved_bytes = 2 * stage.output_bytes;
    stage.forward_seconds = stage.backward_seconds = 0.01;
  }
  EXPECT_THAT(Reasons(chain), IsEmpty());
  chain.stages[777].forward_seconds = 0.11;
  ASSERT_THAT(Reasons(chain), ElementsAre(kTimesDiffer));
  EXPECT_EQ(ChainWarnings(chain)[0].field, "chain.stages[777].forward_seconds");
}

TEST(ChainWarnings, OfTheStepCountTheLoss) {
  Chain chain = EqualChain(40);  // 120 s
  EXPECT_THAT(Reasons(chain), IsEmpty());
  chain.loss.backward_seconds = 0.1;
  EXPECT_THAT(Reasons(chain), ElementsAre(kStepLong));
  chain = EqualChain(1);
  chain.stages[0].forward_seconds = 4e-5;
  chain.stages[0].backward_seconds = 6.1e-5;
  EXPECT_THAT(Reasons(chain), IsEmpty());
  chain.stages[0].backward_seconds = 5.9e-5;
  EXPECT_THAT(Reasons(chain), ElementsAre(kStepShort));
  chain.stages[0].forward_seconds = chain.stages[0].backward_seconds = 0;
  EXPECT_THAT(Reasons(chain), ElementsAre(kTimesZero));
}

TEST(ChainWarnings, OfSmallSizesNeedMostStages) {
  Chain chain = EqualChain(4);
  for (Stage& stage : chain.stages) stage.saved_bytes = 16;
  EXPECT_THAT(Reasons(chain), IsEmpty());
  chain.stages[0].saved_bytes = chain.stages[1].saved_bytes = 15;
  EXPECT_THAT(Reasons(chain), IsEmpty());
  chain.stages[3].saved_bytes = 15;
  ASSERT_THAT(Reasons(chain), ElementsAre(kSizesSmall));
  EXPECT_EQ(ChainWarnings(chain)[0].field, "chain.stages[0].saved_bytes");
}

TEST(ChainWarnings, OfWhatIsSavedNeedEveryStage) {
  Chain chain = EqualChain(4);
  for (Stage& stage : chain.stages) stage.output_bytes = stage.saved_bytes;
  EXPECT_THAT(Reasons(chain), ElementsAre(kSavedEqualsOutput));
  chain.stages[3].saved_bytes += 1;
  EXPECT_THAT(Reasons(chain), IsEmpty());
}

}  // namespace
}  // namespace stowage
