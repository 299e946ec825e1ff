// Memory of the double, and copies.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/unit/support/cuda_double/double_test.h"

namespace stowage {
namespace {

using cuda_double::Finding;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class CudaMemory : public CudaDoubleTest {
 protected:
  static cudaError_t Copy(std::byte* to, const std::byte* from, cudaMemcpyKind kind,
                          cudaStream_t stream, size_t bytes = kBytes) {
    return cudaMemcpyAsync(to, from, bytes, kind, stream);
  }
};

TEST_F(CudaMemory, FaultsWhereHostCodeTouchesIt) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  volatile const std::byte* const data = Malloc();
  EXPECT_DEATH((void)*data, "");
}

TEST_F(CudaMemory, IsCopiedThereAndBack) {
  const auto results = OverSeeds([] {
    const cudaStream_t stream = NewStream();
    Registered from('a');
    Registered to;
    std::byte* const there = Malloc();
    std::byte* const back = Malloc();
    EXPECT_EQ(Copy(there, from.data(), cudaMemcpyHostToDevice, stream), cudaSuccess);
    EXPECT_EQ(Copy(back, there, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
    EXPECT_EQ(Copy(to.data(), back, cudaMemcpyDefault, stream), cudaSuccess);
    Sync(stream);
    return to.at(kBytes - 1);
  });
  EXPECT_THAT(results, ElementsAre('a'));
}

TEST_F(CudaMemory, IsPoisonedWhenItIsAllocatedAndFreed) {
  const auto is_same = [](const std::byte* data) {
    const std::byte* const view = cuda_double::View(data);
    return std::all_of(view, view + kBytes, [view](std::byte byte) { return byte == *view; });
  };
  const cudaStream_t stream = NewStream();
  for (const bool pooled : {false, true}) {
    std::byte* const data = pooled ? MallocAsync(stream) : Malloc();
    std::array<std::byte, 2> seen = {};
    Kernel(stream, {Written(data)}, [&] {
      EXPECT_TRUE(is_same(data));
      seen[0] = *cuda_double::View(data);
      std::fill_n(cuda_double::View(data), kBytes, std::byte{0});
    });
    if (pooled) {
      EXPECT_EQ(cudaFreeAsync(data, stream), cudaSuccess);
      Sync(stream);
    } else {
      Sync(stream);
      EXPECT_EQ(cudaFree(data), cudaSuccess);
    }
    EXPECT_TRUE(is_same(data));
    EXPECT_EQ(*cuda_double::View(data), seen[0]);
    EXPECT_NE(seen[0], std::byte{0});
  }
}

TEST_F(CudaMemory, IsReusedAtOnceOrLateBySeed) {
  const auto reuses = OverSeeds([] {
    std::byte* const first = Malloc();
    EXPECT_EQ(cudaFree(first), cudaSuccess);
    return Malloc() == first;
  });
  EXPECT_THAT(reuses, UnorderedElementsAre(false, true));
}

TEST_F(CudaMemory, OfAPoolIsReusedInStreamOrder) {
  // What the kernel of the old owner writes must never show in the new block.
  const auto results = OverSeeds([] {
    const cudaStream_t first = NewStream();
    const cudaStream_t second = NewStream();
    std::byte* const old = MallocAsync(first);
    Fill(first, old, 'o');
    EXPECT_EQ(cudaFreeAsync(old, first), cudaSuccess);
    std::byte* const block = MallocAsync(second);
    Fill(second, block, 'n');
    char seen = 0;
    Kernel(second, {Read(block)}, [&] { seen = static_cast<char>(*cuda_double::View(block)); });
    Sync(second);
    Sync(first);
    EXPECT_THAT(Findings(), IsEmpty());
    return std::pair(block == old, seen);
  });
  EXPECT_THAT(results, ElementsAre(std::pair(false, 'n'), std::pair(true, 'n')));
}

TEST_F(CudaMemory, RunsOutAndComesBack) {
  cuda_double::Reset({.memory_bytes = 2 * kBytes});
  const cudaStream_t stream = NewStream();
  std::byte* const first = Malloc();
  (void)Malloc();
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMallocAsync(&data, 1, stream), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&data, kBytes), cudaSuccess);
}

TEST_F(CudaMemory, IsCheckedForItsBounds) {
  const cudaStream_t stream = NewStream();
  Registered host;
  std::byte* const data = Malloc(kBytes - 1);
  EXPECT_EQ(Copy(data, host.data(), cudaMemcpyHostToDevice, stream), cudaErrorInvalidValue);
  EXPECT_THAT(Findings(), ElementsAre(Finding::kOutOfBounds));
  std::byte* const whole = Malloc();
  EXPECT_EQ(Copy(whole, host.data() + 1, cudaMemcpyHostToDevice, stream), cudaErrorInvalidValue);
  EXPECT_THAT(Findings(), ElementsAre(Finding::kOutOfBounds));
  bool ran = false;
  Kernel(stream, {Read(data)}, [&] { ran = true; });
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  EXPECT_THAT(Findings(), ElementsAre(Finding::kOutOfBounds));
  EXPECT_FALSE(ran);
}

TEST_F(CudaMemory, OfTheHostIsNoKernelsUnlessItIsRegistered) {
  const cudaStream_t stream = NewStream();
  Registered registered;
  Kernel(stream, {Written(registered.data())},
         [&] { *cuda_double::View(registered.data()) = std::byte{'k'}; });
  Sync(stream);
  EXPECT_EQ(registered.at(0), 'k');
  std::array<std::byte, kBytes> pageable = {};
  Kernel(stream, {Read(pageable.data())});
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  EXPECT_THAT(Findings(), ElementsAre(Finding::kOutOfBounds));
}

TEST_F(CudaMemory, IsNotUsedOnceItIsFreed) {
  const cudaStream_t stream = NewStream();
  Registered host;
  std::byte* const freed = Malloc();
  std::byte* const pooled = MallocAsync(stream);
  EXPECT_EQ(cudaFree(freed), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(pooled, stream), cudaSuccess);
  for (std::byte* const data : {freed, pooled}) {
    EXPECT_EQ(Copy(data, host.data(), cudaMemcpyHostToDevice, stream), cudaErrorInvalidValue);
    EXPECT_EQ(cudaFree(data), cudaErrorInvalidValue);
    EXPECT_EQ(cudaFreeAsync(data, stream), cudaErrorInvalidValue);
    EXPECT_THAT(Findings(), ElementsAre(Finding::kUseAfterFree, Finding::kUseAfterFree,
                                        Finding::kUseAfterFree));
  }
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST_F(CudaMemory, OfAPoolMayBeFreedByEitherCall) {
  const cudaStream_t stream = NewStream();
  std::byte* const pooled = MallocAsync(stream);
  Sync(stream);
  EXPECT_EQ(cudaFree(pooled), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(Malloc(), stream), cudaSuccess);
}

TEST_F(CudaMemory, HasPoolsWhereTheDeviceHas) {
  cuda_double::Reset({.has_pools = false});
  int pools = 1;
  EXPECT_EQ(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, 0), cudaSuccess);
  EXPECT_EQ(pools, 0);
  void* data = nullptr;
  EXPECT_EQ(cudaMallocAsync(&data, 1, nullptr), cudaErrorNotSupported);
  EXPECT_EQ(cudaFreeAsync(Malloc(), nullptr), cudaErrorNotSupported);
}

TEST_F(CudaMemory, IsRegisteredOnce) {
  Registered host;
  EXPECT_EQ(cudaHostRegister(host.data() + 10, 10, 0), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(cudaHostUnregister(host.data() + 10), cudaErrorHostMemoryNotRegistered);
  EXPECT_EQ(cudaHostRegister(nullptr, 10, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostRegister(Malloc(), 10, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaErrorHostMemoryNotRegistered);
}

TEST_F(CudaMemory, ThatIsPageableIsCopiedAtOnceOrLaterBySeed) {
  const auto there = OverSeeds([] {
    const cudaStream_t stream = NewStream();
    std::array<std::byte, kBytes> pageable = {};
    std::byte* const data = Malloc();
    EXPECT_EQ(Copy(data, pageable.data(), cudaMemcpyHostToDevice, stream), cudaSuccess);
    pageable[0] = std::byte{'x'};
    Sync(stream);
    return static_cast<char>(*cuda_double::View(data));
  });
  EXPECT_THAT(there, UnorderedElementsAre('\0', 'x'));
  const auto back = OverSeeds([] {
    const cudaStream_t stream = NewStream();
    std::array<std::byte, kBytes> pageable = {};
    std::byte* const data = Malloc();
    Fill(stream, data, 'y');
    EXPECT_EQ(Copy(pageable.data(), data, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    const char early = static_cast<char>(pageable[0]);
    Sync(stream);
    EXPECT_EQ(static_cast<char>(pageable[0]), 'y');
    return early;
  });
  EXPECT_THAT(back, UnorderedElementsAre('\0', 'y'));
}

TEST_F(CudaMemory, OfTheHostIsCopiedToTheHostAtOnce) {
  const auto results = OverSeeds([] {
    const cudaStream_t stream = NewStream();
    Registered from('a');
    Registered to;
    EXPECT_EQ(Copy(to.data(), from.data(), cudaMemcpyHostToHost, stream), cudaSuccess);
    return to.at(0);
  });
  EXPECT_THAT(results, ElementsAre('a'));
}

TEST_F(CudaMemory, IsCopiedInTheDirectionThatIsNamed) {
  Registered host;
  std::byte* const data = Malloc();
  EXPECT_EQ(Copy(data, host.data(), cudaMemcpyDeviceToHost, nullptr), cudaErrorInvalidValue);
  EXPECT_THAT(Findings(), ElementsAre(Finding::kMisuse));
  EXPECT_EQ(Copy(data, host.data(), cudaMemcpyHostToDevice, nullptr, 0), cudaSuccess);
}

TEST_F(CudaMemory, IsNotReadOnceItsRegistrationHasEnded) {
  const auto errors = OverSeeds([] {
    const cudaStream_t stream = NewStream();
    std::byte* const to = Malloc();
    {
      Registered from;
      EXPECT_EQ(Copy(to, from.data(), cudaMemcpyHostToDevice, stream), cudaSuccess);
    }
    EXPECT_THAT(Findings(), ElementsAre(Finding::kRace));
    return cudaStreamSynchronize(stream);
  });
  EXPECT_THAT(errors, UnorderedElementsAre(cudaSuccess, cudaErrorIllegalAddress));
}

TEST_F(CudaMemory, ThatIsNeverFreedIsALeak) {
  EXPECT_THAT(cuda_double::Leaks(), IsEmpty());
  const cudaStream_t stream = NewStream();
  const cudaEvent_t event = NewEvent();
  std::byte* const data = Malloc();
  std::byte* const pooled = MallocAsync(stream);
  {
    Registered host;
    const auto leaks = cuda_double::Leaks();
    std::string all;
    for (const auto& leak : leaks) {
      EXPECT_EQ(leak.finding, Finding::kLeak);
      all += leak.text;
    }
    EXPECT_EQ(leaks.size(), 5U);
    for (const char* what : {"a stream", "an event", "cudaMalloc was", "cudaMallocAsync was",
                             "cudaHostRegister was"}) {
      EXPECT_THAT(all, HasSubstr(what));
    }
  }
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(pooled, stream), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_THAT(cuda_double::Leaks(), IsEmpty());
}

}  // namespace
}  // namespace stowage
