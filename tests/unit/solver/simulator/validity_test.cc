// One violation of each rule of solver/README.md, "Errors".
#include <gtest/gtest.h>

#include "solver/simulator/simulator.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

// Two stages and the loss (stage 3), on a platform that can copy both ways.
class Validity : public testing::Test {
 protected:
  Validity() { platform_.offload_bytes_per_second = 10; }

  void ExpectValid(const char* operations) {
    EXPECT_THAT(Simulate(chain_, platform_, Ops(operations)), IsOk()) << operations;
  }
  void ExpectError(const char* operations, const char* message) {
    EXPECT_THAT(Simulate(chain_, platform_, Ops(operations)),
                Fails(absl::StatusCode::kInvalidArgument, testing::StartsWith(message)))
        << operations;
  }

  Chain chain_ = EqualChain(2);
  Platform platform_ = Memory(1000);
};

TEST_F(Validity, HoldsForTheSchedulesOfThePapers) {
  ExpectValid("S1 S2 S3 B3 B2 B1");
  ExpectValid("C1 S2 S3 B3 B2 S1 B1");
  ExpectValid("C1 D2 S3 B3 S1 S2 B2 B1");
  ExpectValid("S1 O1 S2 R1 S3 B3 P1 B2 B1");
}

TEST_F(Validity, NeedsTheInputOfAForwardOnDevice) {
  ExpectError("S2",
              "operations[0] FORWARD_SAVE 2: value 1 is not on device: it was never computed");
  ExpectError("C1 D2 C2",
              "operations[2] FORWARD_CHECKPOINT 2: value 2 is still live on the device");
  ExpectError("S1 O1 R1 S2",
              "operations[3] FORWARD_SAVE 2: value 1 is not on device: it is on the host");
  ExpectError("C1 D2 S3 B3 S2",
              "operations[4] FORWARD_SAVE 2: value 1 is not on device: it was dropped");
}

TEST_F(Validity, ForbidsRecomputingALiveValue) {
  ExpectError("S1 S1", "operations[1] FORWARD_SAVE 1: value 1 is still live on the device");
  ExpectError("S1 O1 R1 C1",
              "operations[3] FORWARD_CHECKPOINT 1: value 1 is still live on the host");
}

TEST_F(Validity, ForbidsDroppingTheInput) {
  ExpectError("D1", "operations[0] FORWARD_DISCARD 1: would drop the chain's input");
}

TEST_F(Validity, AllowsDroppingAnInputThatNoBackwardReads) {
  ExpectError("C1 X2",
              "operations[1] FORWARD_SAVE_DISCARD 2: would drop value 1, which the backward of "
              "stage 2 reads");
  chain_.stages[1].input_unread = true;
  ExpectValid("C1 X2 S3 B3 B2 S1 B1");
  ExpectValid("C1 X2 S3 B3 S1 B2 B1");
  ExpectError("S1 X2",
              "operations[1] FORWARD_SAVE_DISCARD 2: would drop value 1, which is saved for "
              "BACKWARD 1");
  ExpectError("C1 O1 X2",
              "operations[2] FORWARD_SAVE_DISCARD 2: would drop value 1, whose OFFLOAD");
  ExpectError("C1 X2 S3 B3 B2 B1",
              "operations[5] BACKWARD 1: value 1 is not on device: it was dropped");
  ExpectError("S1 S2 O1 R1 S3 B3 B2",
              "operations[6] BACKWARD 2: value 1 is not on device: it is on the host");
  chain_.stages[0].input_unread = true;
  ExpectValid("X1 S2 S3 B3 B2 B1");
  chain_.loss.input_unread = true;
  ExpectValid("X1 S2 S3 B3 B2 B1");
}

TEST_F(Validity, KnowsTheWaysToSaveAStage) {
  ExpectError("S1:1",
              "operations[0] FORWARD_SAVE 1 save_option 1: stage 1 has no such "
              "save_option; they go from 0, its own way, to 0");
  chain_.stages[0].save_options = {{"", 10, 3, 0}};
  chain_.stages[1].save_options = {{"", 10, 3, 0}, {"", 20, 2, 0}};
  chain_.stages[1].input_unread = true;
  ExpectValid("S1:1 S2:2 S3 B3 B2 B1");
  ExpectValid("C1 X2:1 S3 B3 B2 S1:1 B1");
  ExpectError("S1:1 S2:3", "operations[1] FORWARD_SAVE 2 save_option 3: stage 2 has no such");
  ExpectError("S1:-1", "operations[0] FORWARD_SAVE 1 save_option -1: stage 1 has no such");
  ExpectError("S1 S2 S3:1",
              "operations[2] FORWARD_SAVE 3 save_option 1 (the loss): the loss has no such");
  for (const char* operations : {"C1:1", "S1 O1:1", "S1 S2 S3 B3:1"}) {
    EXPECT_THAT(Simulate(chain_, platform_, Ops(operations)),
                Fails(absl::StatusCode::kInvalidArgument,
                      testing::HasSubstr("which only FORWARD_SAVE and FORWARD_SAVE_DISCARD have")))
        << operations;
  }
}

TEST_F(Validity, ForbidsDroppingAValueBetweenOffloadAndRelease) {
  ExpectError("C1 O1 D2", "operations[2] FORWARD_DISCARD 2: would drop value 1, whose OFFLOAD");
  ExpectError("C1 S2 S3 O1 B3 B2", "operations[5] BACKWARD 2: would drop value 1, whose OFFLOAD");
  ExpectError("C1 S2 S3 B3 O2 B2", "operations[5] BACKWARD 2: would drop value 2, whose OFFLOAD");
  // ā^1 stays on the device, so its copy may still be in progress.
  ExpectValid("S1 S2 S3 B3 O1 B2 R1 P1 B1");
}

TEST_F(Validity, NeedsEverythingThatABackwardReads) {
  ExpectError("S1 S2 B2",
              "operations[2] BACKWARD 2: gradient 2 is missing: BACKWARD 3 (the loss) has not run");
  ExpectError("S1 S2 B3",
              "operations[2] BACKWARD 3 (the loss): value 3 (the loss) is not on device: it was "
              "never computed");
  ExpectError("S1 C2 S3 B3 B2",
              "operations[4] BACKWARD 2: value 2 is not on device: it was dropped");
  ExpectError("S1 C2 B2", "operations[2] BACKWARD 2: gradient 2 is missing");
  ExpectError("S1 S2 S3 B3 O1 R1 B2",
              "operations[6] BACKWARD 2: value 1 is not on device: it is on the host");
  ExpectError("S1 S2 S3 B3 O2 R2 B2",
              "operations[6] BACKWARD 2: value 2 is not on device: it is on the host");
  ExpectError("C1 S2 S3 B3 B2 C1 B1", "operations[6] BACKWARD 1: stage 1 left only its output");
}

TEST_F(Validity, ForbidsASecondBackwardAndAForwardAfterIt) {
  ExpectError("S1 S2 S3 B3 B3",
              "operations[4] BACKWARD 3 (the loss): the backward of the loss is already done");
  ExpectError("S1 S2 S3 B3 S3",
              "operations[4] FORWARD_SAVE 3 (the loss): the backward of the loss is already done");
}

TEST_F(Validity, RunsTheLossOnlyAsForwardSave) {
  ExpectError(
      "S1 S2 C3",
      "operations[2] FORWARD_CHECKPOINT 3 (the loss): the loss can only run as FORWARD_SAVE");
  ExpectError("S1 S2 D3",
              "operations[2] FORWARD_DISCARD 3 (the loss): the loss can only run as FORWARD_SAVE");
}

TEST_F(Validity, RunsANoRecomputeStageOnceAndSaving) {
  chain_.stages[0].no_recompute = true;
  ExpectValid("S1 S2 S3 B3 B2 B1");
  ExpectError("C1",
              "operations[0] FORWARD_CHECKPOINT 1: stage 1 is no_recompute and can only run as");
  ExpectError("S1 D2 S1",
              "operations[2] FORWARD_SAVE 1: stage 1 is no_recompute and has already run");
  chain_.stages[1].no_recompute = true;
  ExpectError("S1 D2",
              "operations[1] FORWARD_DISCARD 2: stage 2 is no_recompute and can only run as");
}

TEST_F(Validity, KeepsANoOffloadValueOnTheDeviceButNotTheInput) {
  chain_.stages[0].no_offload = true;
  ExpectError("S1 O1", "operations[1] OFFLOAD 1: stage 1 is no_offload");
  ExpectValid("S1 O0 R0 S2 S3 B3 B2 P0 B1");
}

TEST_F(Validity, NeedsABandwidthForEachDirection) {
  platform_.prefetch_bytes_per_second = 0;
  ExpectError("S1 O1 R1 P1",
              "operations[3] PREFETCH 1: the platform's prefetch_bytes_per_second is 0");
  platform_ = Memory(1000);
  ExpectError("S1 O1", "operations[1] OFFLOAD 1: the platform's offload_bytes_per_second is 0");
}

TEST_F(Validity, PairsOffloadsReleasesAndPrefetches) {
  ExpectError("O1", "operations[0] OFFLOAD 1: value 1 is not on device: it was never computed");
  ExpectError("S1 O1 O1", "operations[2] OFFLOAD 1: value 1 already has a copy on the host");
  ExpectError("S1 O1 R1 O1",
              "operations[3] OFFLOAD 1: value 1 is not on device: it is on the host");
  ExpectError("S1 R1", "operations[1] RELEASE 1: value 1 has no copy on the host; OFFLOAD 1 first");
  ExpectError("S1 O1 R1 R1",
              "operations[3] RELEASE 1: value 1 is not on device: it is on the host");
  ExpectError("S1 P1", "operations[1] PREFETCH 1: value 1 is already on the device");
  ExpectError("S1 O1 P1", "operations[2] PREFETCH 1: value 1 is already on the device");
  ExpectError("P1",
              "operations[0] PREFETCH 1: value 1 has no copy on the host: it was never computed");
  // The host copy is gone after a PREFETCH, so a value may leave again.
  ExpectValid("S1 O1 R1 P1 O1 R1 P1 S2 S3 B3 B2 B1");
}

TEST_F(Validity, KnowsOnlyTheStagesOfTheChain) {
  ExpectError(
      "S0", "operations[0] FORWARD_SAVE 0: there is no such stage; they go from 1 to 3, the loss");
  ExpectError("S4", "operations[0] FORWARD_SAVE 4: there is no such stage");
  ExpectError("O4", "operations[0] OFFLOAD 4: there is no such value; they go from 0 to 3");
  const Schedule negative{{{OperationKind::kPrefetch, -1}}};
  EXPECT_THAT(Simulate(chain_, platform_, negative),
              Fails(absl::StatusCode::kInvalidArgument, testing::HasSubstr("no such value")));
}

TEST_F(Validity, NamesWhatIsMissingAtTheEndOnePastTheLastOperation) {
  ExpectError("",
              "operations[0] END: the last gradient is missing: BACKWARD 3 (the loss) has not run");
  ExpectError("S1 S2 S3 B3 B2", "operations[5] END: the last gradient is missing: BACKWARD 1");
}

TEST(Simulator, StopsWhenItIsAskedTo) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(
      Simulate(EqualChain(2), Memory(100), Ops("S1 S2 S3 B3 B2 B1"), nullptr, stop.get_token()),
      Fails(absl::StatusCode::kCancelled, testing::_));
}

}  // namespace
}  // namespace stowage
