// The double's happens-before checker. What it finds depends on no seed.
#include <gtest/gtest.h>

#include "tests/unit/support/cuda_double/double_test.h"

namespace stowage {
namespace {

using cuda_double::Finding;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CudaRaces : public CudaDoubleTest {
 protected:
  const cudaStream_t first_ = NewStream();
  const cudaStream_t second_ = NewStream();
  std::byte* const data_ = Malloc();
};

TEST_F(CudaRaces, AreTwoWritesWithoutAnOrder) {
  Kernel(first_, {Written(data_)});
  Kernel(second_, {Written(data_)});
  EXPECT_THAT(Findings(), ElementsAre(Finding::kRace));
}

TEST_F(CudaRaces, AreAReadAndAWriteWithoutAnOrder) {
  Kernel(first_, {Read(data_)});
  Kernel(second_, {Written(data_)});
  EXPECT_THAT(Findings(), ElementsAre(Finding::kRace));
}

TEST_F(CudaRaces, AreNotTwoReads) {
  Kernel(first_, {Read(data_)});
  Kernel(second_, {Read(data_)});
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(CudaRaces, AreFoundForEverySeed) {
  const auto counts = OverSeeds([] {
    std::byte* const data = Malloc();
    Kernel(NewStream(), {Written(data)});
    Kernel(NewStream(), {Read(data)});
    return Findings().size();
  });
  EXPECT_THAT(counts, ElementsAre(1));
}

TEST_F(CudaRaces, AreNotInOneStream) {
  Kernel(first_, {Written(data_)});
  Kernel(first_, {Read(data_)});
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(CudaRaces, AreOfBytesThatOverlap) {
  Kernel(first_, {Written(data_, 500)});
  Kernel(second_, {Written(data_ + 500, 500)});
  EXPECT_THAT(Findings(), IsEmpty());
  Kernel(second_, {Written(data_ + 499, 1)});
  EXPECT_THAT(Findings(), ElementsAre(Finding::kRace));
}

TEST_F(CudaRaces, AreEndedByAnEvent) {
  Kernel(first_, {Written(data_)});
  Wait(second_, first_);
  Kernel(second_, {Read(data_)});
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(CudaRaces, AreEndedByEventsThroughAThirdStream) {
  const cudaStream_t third = NewStream();
  Kernel(first_, {Written(data_)});
  Wait(third, first_);
  Wait(second_, third);
  Kernel(second_, {Written(data_)});
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(CudaRaces, AreNotEndedByAnEventThatIsRecordedTooEarly) {
  const cudaEvent_t event = NewEvent();
  ASSERT_EQ(cudaEventRecord(event, first_), cudaSuccess);
  Kernel(first_, {Written(data_)});
  ASSERT_EQ(cudaStreamWaitEvent(second_, event, 0), cudaSuccess);
  Kernel(second_, {Read(data_)});
  EXPECT_THAT(Findings(), ElementsAre(Finding::kRace));
}

TEST_F(CudaRaces, AreNotEndedByAnEventOfTheWrongStream) {
  Kernel(first_, {Written(data_)});
  Wait(second_, NewStream());
  Kernel(second_, {Read(data_)});
  EXPECT_THAT(Findings(), ElementsAre(Finding::kRace));
}

TEST_F(CudaRaces, AreEndedByTheHostThatWaits) {
  Kernel(first_, {Written(data_)});
  Sync(first_);
  Kernel(second_, {Read(data_)});
  const cudaEvent_t event = NewEvent();
  ASSERT_EQ(cudaEventRecord(event, second_), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaFree(data_), cudaSuccess);
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(CudaRaces, AreEndedByTheLegacyDefaultStream) {
  const cudaStream_t blocking = NewStream(cudaStreamDefault);
  Kernel(blocking, {Written(data_)});
  Kernel(nullptr, {Written(data_)});
  Kernel(blocking, {Written(data_)});
  EXPECT_THAT(Findings(), IsEmpty());
  Kernel(first_, {Written(data_)});
  EXPECT_THAT(Findings(), ElementsAre(Finding::kRace));
}

TEST_F(CudaRaces, AreNotForgottenAfterALaterRead) {
  Kernel(first_, {Written(data_)});
  Kernel(first_, {Read(data_)});
  Kernel(second_, {Read(data_)});
  EXPECT_THAT(Findings(), ElementsAre(Finding::kRace));
}

TEST_F(CudaRaces, AreFreesWhileTheMemoryIsUsed) {
  Kernel(first_, {Read(data_)});
  EXPECT_EQ(cudaFree(data_), cudaSuccess);
  EXPECT_THAT(Findings(), ElementsAre(Finding::kRace));
}

TEST_F(CudaRaces, AreStreamOrderedFreesOnAnotherStream) {
  std::byte* const pooled = MallocAsync(first_);
  Kernel(first_, {Written(pooled)});
  EXPECT_EQ(cudaFreeAsync(pooled, second_), cudaSuccess);
  EXPECT_THAT(Findings(), ElementsAre(Finding::kRace));
}

TEST_F(CudaRaces, AreUsesOnAnotherStreamBeforeTheAllocation) {
  std::byte* const pooled = MallocAsync(first_);
  Kernel(second_, {Written(pooled)});
  EXPECT_THAT(Findings(), ElementsAre(Finding::kRace));
  std::byte* const ordered = MallocAsync(first_);
  Wait(second_, first_);
  Kernel(second_, {Written(ordered)});
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(CudaRaces, AreEndsOfARegistrationWhileACopyUsesIt) {
  {
    Registered host;
    ASSERT_EQ(cudaMemcpyAsync(data_, host.data(), kBytes, cudaMemcpyHostToDevice, first_),
              cudaSuccess);
  }
  EXPECT_THAT(Findings(), ElementsAre(Finding::kRace));
}

TEST_F(CudaRaces, AreAccessesOfHostCodeThatItDeclares) {
  Registered host;
  cuda_double::Touch(Written(host.data()));
  ASSERT_EQ(cudaMemcpyAsync(data_, host.data(), kBytes, cudaMemcpyHostToDevice, first_),
            cudaSuccess);
  cuda_double::Touch(Read(host.data()));
  EXPECT_THAT(Findings(), IsEmpty());
  cuda_double::Touch(Written(host.data()));
  EXPECT_THAT(Findings(), ElementsAre(Finding::kRace));
  Sync(first_);
  cuda_double::Touch(Written(host.data()));
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(CudaRaces, AreAccessesOfHostFunctionsThatTheyDeclare) {
  Registered host;
  const auto write = [](void* data) { cuda_double::Touch(Written(data)); };
  ASSERT_EQ(cudaLaunchHostFunc(first_, write, host.data()), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(data_, host.data(), kBytes, cudaMemcpyHostToDevice, first_),
            cudaSuccess);
  Sync(first_);
  EXPECT_THAT(Findings(), IsEmpty());
  ASSERT_EQ(cudaLaunchHostFunc(second_, write, host.data()), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(data_, host.data(), kBytes, cudaMemcpyHostToDevice, first_),
            cudaSuccess);
  Sync(first_);
  Sync(second_);
  EXPECT_THAT(Findings(), ElementsAre(Finding::kRace));
}

// Their names are in backtraces.
__attribute__((noinline)) void WriteSomewhere(cudaStream_t stream, std::byte* data) {
  (void)cuda_double::LaunchKernel(stream, {{data, 10, cuda_double::AccessKind::kWrite}}, [] {});
  asm volatile("");  // no tail call
}
__attribute__((noinline)) void FreeElsewhere(std::byte* data) {
  (void)cudaFree(data);
  asm volatile("");
}

TEST_F(CudaRaces, NameBothCalls) {
  WriteSomewhere(first_, data_);
  FreeElsewhere(data_);
  const auto reports = cuda_double::TakeReports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_THAT(reports[0].text, HasSubstr("write of 1000 bytes"));
  EXPECT_THAT(reports[0].text, HasSubstr("cudaFree"));
  EXPECT_THAT(reports[0].text, HasSubstr("FreeElsewhere"));
  EXPECT_THAT(reports[0].text, HasSubstr("write of 10 bytes"));
  EXPECT_THAT(reports[0].text, HasSubstr("WriteSomewhere"));
}

}  // namespace
}  // namespace stowage
