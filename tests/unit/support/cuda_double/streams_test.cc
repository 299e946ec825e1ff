// Streams, events and host functions of the double, each rule for many seeds.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/unit/support/cuda_double/double_test.h"

namespace stowage {
namespace {

using cuda_double::Finding;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

class CudaStreams : public CudaDoubleTest {
 protected:
  // A kernel that appends its letter to `order`.
  static void Letter(cudaStream_t stream, std::string* order, char letter) {
    Kernel(stream, {}, [=] { order->push_back(letter); });
  }
};

TEST_F(CudaStreams, RunNothingUntilACallForcesThemOrEarlierBySeed) {
  const auto runs = OverSeeds([] {
    std::string order;
    const cudaStream_t stream = NewStream();
    Letter(stream, &order, 'a');
    const bool ran_early = !order.empty();
    Sync(stream);
    EXPECT_EQ(order, "a");
    return ran_early;
  });
  EXPECT_THAT(runs, UnorderedElementsAre(false, true));
}

TEST_F(CudaStreams, RunEachInOrder) {
  const auto orders = OverSeeds([] {
    std::string order;
    const cudaStream_t stream = NewStream();
    for (const char letter : {'a', 'b', 'c', 'd'}) Letter(stream, &order, letter);
    Sync(stream);
    return order;
  });
  EXPECT_THAT(orders, ElementsAre("abcd"));
}

TEST_F(CudaStreams, RunInEveryOrderThatNothingForbids) {
  const auto orders = OverSeeds([] {
    std::string order;
    const cudaStream_t first = NewStream();
    const cudaStream_t second = NewStream();
    Letter(first, &order, 'a');
    Letter(first, &order, 'b');
    Letter(second, &order, 'c');
    Sync(first);
    Sync(second);
    return order;
  });
  EXPECT_THAT(orders, ElementsAre("abc", "acb", "cab"));
}

TEST_F(CudaStreams, DoTheSameForTheSameSeed) {
  const auto order_of = [](uint64_t seed) {
    cuda_double::Reset({.seed = seed});
    std::string order;
    std::array<cudaStream_t, 4> streams = {};
    for (cudaStream_t& stream : streams) stream = NewStream();
    for (char letter = 'a'; letter <= 'z'; ++letter) {
      Letter(streams[static_cast<size_t>(letter) % 4], &order, letter);
    }
    for (const cudaStream_t stream : streams) Sync(stream);
    return order;
  };
  EXPECT_EQ(order_of(7), order_of(7));
  EXPECT_NE(order_of(7), order_of(8));
}

TEST_F(CudaStreams, WaitForAnEvent) {
  const auto orders = OverSeeds([] {
    std::string order;
    const cudaStream_t first = NewStream();
    const cudaStream_t second = NewStream();
    Letter(first, &order, 'a');
    Wait(second, first);  // which destroys the event before it has happened
    Letter(second, &order, 'b');
    Sync(second);
    return order;
  });
  EXPECT_THAT(orders, ElementsAre("ab"));
}

TEST_F(CudaStreams, WaitForTheLastRecordBeforeTheWait) {
  const auto orders = OverSeeds([] {
    std::string order;
    const cudaStream_t first = NewStream();
    const cudaStream_t second = NewStream();
    const cudaEvent_t event = NewEvent();
    EXPECT_EQ(cudaEventRecord(event, first), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
    Letter(first, &order, 'a');
    EXPECT_EQ(cudaEventRecord(event, first), cudaSuccess);
    Letter(second, &order, 'b');
    Sync(second);
    Sync(first);
    return order;
  });
  EXPECT_THAT(orders, ElementsAre("ab", "ba"));
}

TEST_F(CudaStreams, DoNotWaitForAnEventThatWasNeverRecorded) {
  const auto orders = OverSeeds([] {
    std::string order;
    const cudaStream_t first = NewStream();
    const cudaStream_t second = NewStream();
    Letter(first, &order, 'a');
    EXPECT_EQ(cudaStreamWaitEvent(second, NewEvent(), 0), cudaSuccess);
    Letter(second, &order, 'b');
    Sync(second);
    Sync(first);
    return order;
  });
  EXPECT_THAT(orders, ElementsAre("ab", "ba"));
}

TEST_F(CudaStreams, WaitForTheLegacyDefaultStreamAndItForThem) {
  const auto order_with = [](unsigned flags) {
    return OverSeeds([flags] {
      std::string order;
      const cudaStream_t stream = NewStream(flags);
      Letter(stream, &order, 'a');
      Letter(nullptr, &order, 'b');
      Letter(stream, &order, 'c');
      Sync(stream);
      Sync(cudaStreamLegacy);
      return order;
    });
  };
  EXPECT_THAT(order_with(cudaStreamDefault), ElementsAre("abc"));
  EXPECT_THAT(order_with(cudaStreamNonBlocking), ElementsAre("abc", "acb", "bac"));
}

TEST_F(CudaStreams, OfDefaultAreOneAThreadWhereTheyAreAskedFor) {
  const auto orders = OverSeeds([] {
    std::string order;
    Letter(cudaStreamPerThread, &order, 'a');
    std::thread([&order] { Letter(cudaStreamPerThread, &order, 'b'); }).join();
    Letter(cudaStreamLegacy, &order, 'c');  // waits for both
    Sync(cudaStreamLegacy);
    return order;
  });
  EXPECT_THAT(orders, ElementsAre("abc", "bac"));
}

TEST_F(CudaStreams, RunWhatIsEnqueuedAfterTheyAreDestroyed) {
  std::string order;
  const cudaStream_t stream = NewStream();
  const cudaEvent_t event = NewEvent();
  Letter(stream, &order, 'a');
  ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(order, "a");
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_THAT(Findings(), ElementsAre(Finding::kUseAfterFree));
}

TEST_F(CudaStreams, AndEventsThatAreNoneAreReported) {
  const auto stream = reinterpret_cast<cudaStream_t>(uintptr_t{0x1234});
  EXPECT_EQ(cudaEventRecord(NewEvent(), stream), cudaErrorInvalidResourceHandle);
  EXPECT_THAT(Findings(), ElementsAre(Finding::kMisuse));
  const cudaEvent_t event = NewEvent();
  ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
  EXPECT_THAT(Findings(), ElementsAre(Finding::kUseAfterFree));
  const cudaStream_t old = NewStream();
  cuda_double::Reset();
  EXPECT_EQ(cudaStreamDestroy(old), cudaErrorInvalidResourceHandle);
  EXPECT_THAT(Findings(), ElementsAre(Finding::kUseAfterFree));
  EXPECT_EQ(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
}

TEST_F(CudaStreams, AreOfTheDeviceThatIsCurrent) {
  cuda_double::Reset({.devices = 2});
  const cudaStream_t first = NewStream();
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(NewEvent(), first), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cuda_double::LaunchKernel(first, {}, [] {}), cudaErrorInvalidResourceHandle);
  EXPECT_THAT(Findings(), ElementsAre(Finding::kMisuse, Finding::kMisuse));
  Wait(first, NewStream());                            // an event of another device
  std::thread([first] { Kernel(first, {}); }).join();  // a new thread begins with device 0
}

TEST_F(CudaStreams, TakeTimeThatEventsMeasure) {
  const cudaStream_t stream = NewStream();
  const cudaEvent_t first = NewEvent();
  const cudaEvent_t second = NewEvent();
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, first, second), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaEventRecord(first, stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(second, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(nullptr, first, second), cudaErrorInvalidValue);
  if (cudaEventElapsedTime(&milliseconds, first, second) != cudaSuccess) {
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, first, second), cudaErrorNotReady);
  }
  ASSERT_EQ(cudaEventSynchronize(second), cudaSuccess);
  ASSERT_EQ(cudaEventElapsedTime(&milliseconds, first, second), cudaSuccess);
  EXPECT_GT(milliseconds, 0);
}

TEST_F(CudaStreams, RunHostFunctionsInOrder) {
  const auto orders = OverSeeds([] {
    std::string order;
    const cudaStream_t stream = NewStream();
    Letter(stream, &order, 'a');
    const auto function = [](void* data) { static_cast<std::string*>(data)->push_back('b'); };
    EXPECT_EQ(cudaLaunchHostFunc(stream, function, &order), cudaSuccess);
    Letter(stream, &order, 'c');
    Sync(stream);
    return order;
  });
  EXPECT_THAT(orders, ElementsAre("abc"));
}

TEST_F(CudaStreams, LetNoHostFunctionCallTheRuntime) {
  const cudaStream_t stream = NewStream();
  cudaError_t error = cudaSuccess;
  const auto function = [](void* data) {
    *static_cast<cudaError_t*>(data) = cudaStreamSynchronize(nullptr);
  };
  ASSERT_EQ(cudaLaunchHostFunc(stream, function, &error), cudaSuccess);
  Sync(stream);
  EXPECT_EQ(error, cudaErrorNotPermitted);
  EXPECT_THAT(Findings(), ElementsAre(Finding::kMisuse));
}

TEST_F(CudaStreams, RefuseWhatIsInvalid) {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, 0x100), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamCreateWithFlags(nullptr, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamWaitEvent(nullptr, NewEvent(), 0x100), cudaErrorInvalidValue);
  EXPECT_EQ(cudaEventCreate(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaLaunchHostFunc(nullptr, nullptr, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace stowage
