// CudaDevice under the double of CUDA's runtime: errors of every call, several devices, threads.
#include "client/agent/cuda/cuda_device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "solver/base/status_macros.h"
#include "tests/support/cuda_device_on_double.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::HasSubstr;

constexpr int64_t kBytes = 100;

// Copies to the device, changes there, and copies back; frees all that it has made.
absl::Status RoundTrip(CudaDevice* device, PinnedSpan pinned, DeviceSpan span) {
  RETURN_IF_ERROR(device->Copy(Queue::kToDevice, pinned, span));
  ASSIGN_OR_RETURN(const auto there, device->Record(Queue::kToDevice));
  RETURN_IF_ERROR(device->Wait(Queue::kCompute, there));
  RETURN_IF_ERROR(device->Launch(Queue::kCompute, [span](void* stream) {
    const cudaError_t error = cuda_double::LaunchKernel(
        static_cast<cudaStream_t>(stream),
        {{span.data, static_cast<size_t>(span.bytes), cuda_double::AccessKind::kWrite}},
        [span] { std::memset(cuda_double::View(span.data), 'k', kBytes); });
    return error == cudaSuccess ? absl::OkStatus() : absl::InternalError("the kernel");
  }));
  ASSIGN_OR_RETURN(const auto computed, device->Record(Queue::kCompute));
  RETURN_IF_ERROR(device->Wait(Queue::kToHost, computed));
  RETURN_IF_ERROR(device->Copy(Queue::kToHost, span, pinned));
  RETURN_IF_ERROR(device->Synchronize());
  return there->Seconds() <= computed->Seconds() ? absl::OkStatus()
                                                 : absl::InternalError("the times");
}

absl::Status UseADevice() {
  ASSIGN_OR_RETURN(const auto device, CudaDevice::Create());
  ASSIGN_OR_RETURN(const DeviceSpan span, device->Allocate(kBytes));
  absl::StatusOr<PinnedSpan> pinned = device->AllocatePinned(kBytes);
  absl::Status status = pinned.status();
  if (status.ok()) {
    std::memset(pinned->data, 'h', kBytes);
    status = RoundTrip(device.get(), *pinned, span);
    if (status.ok() && pinned->data[kBytes - 1] != std::byte{'k'}) {
      status = absl::DataLossError("the copy back");
    }
  }
  // Work of a step that failed may still be enqueued.
  status.Update(device->Synchronize());
  device->Free(span);
  if (pinned.ok()) device->FreePinned(*pinned);
  return status;
}

class CudaDeviceFaults : public testing::TestWithParam<std::string> {};

TEST_P(CudaDeviceFaults, LeaveNoErrorBehindAndNoLeak) {
  const std::string entry_point = GetParam();
  int calls = 0;
  for (const bool has_pools : {false, true}) {
    for (int n = 1;; ++n) {
      SCOPED_TRACE(n);
      cuda_double::Reset({.seed = static_cast<uint64_t>(n), .has_pools = has_pools});
      cuda_double::FailCall(entry_point, n, cudaErrorUnknown);
      const absl::Status status = UseADevice();
      EXPECT_EQ(cudaGetLastError(), cudaSuccess) << status;
      ASSERT_EQ(ExpectNothingFound(), 0U) << status;
      if (cuda_double::Calls(entry_point) < n) {
        calls += n - 1;
        EXPECT_THAT(status, IsOk());
        break;
      }
      EXPECT_THAT(UseADevice(), IsOk());  // another one works
    }
  }
  EXPECT_GT(calls, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Each, CudaDeviceFaults,
    testing::Values("cudaDeviceGetAttribute", "cudaDeviceGetPCIBusId", "cudaEventCreate",
                    "cudaEventDestroy", "cudaEventElapsedTime", "cudaEventRecord",
                    "cudaEventSynchronize", "cudaFree", "cudaFreeAsync", "cudaHostRegister",
                    "cudaHostUnregister", "cudaMalloc", "cudaMallocAsync", "cudaMemcpyAsync",
                    "cudaPeekAtLastError", "cudaSetDevice", "cudaStreamCreateWithFlags",
                    "cudaStreamDestroy", "cudaStreamSynchronize", "cudaStreamWaitEvent",
                    "LaunchKernel"),
    [](const auto& entry_point) { return entry_point.param; });

TEST(CudaDevice, ReturnsAnErrorOfTheDeviceAndFreesEverything) {
  for (uint64_t seed = 1; seed <= 32; ++seed) {
    for (const int n : {1, 2, 3}) {
      cuda_double::Reset({.seed = seed});
      cuda_double::FailWork(n, cudaErrorIllegalAddress);
      EXPECT_THAT(UseADevice(),
                  Fails(absl::StatusCode::kInternal, HasSubstr("an illegal memory access")));
      ASSERT_EQ(ExpectNothingFound(), 0U) << "seed " << seed;
    }
  }
}

TEST(CudaDevice, IsUsedFromAnyThreadAndBesideAnotherDevice) {
  for (const bool has_pools : {false, true}) {
    cuda_double::Reset({.devices = 2, .has_pools = has_pools});
    auto first = CudaDevice::Create({.ordinal = 0});
    auto second = CudaDevice::Create({.ordinal = 1});
    ASSERT_THAT(first, IsOk());
    ASSERT_THAT(second, IsOk());
    const auto use = [](CudaDevice* device) {
      const auto span = device->Allocate(kBytes);
      const auto pinned = device->AllocatePinned(kBytes);
      ASSERT_THAT(span, IsOk());
      ASSERT_THAT(pinned, IsOk());
      EXPECT_THAT(RoundTrip(device, *pinned, *span), IsOk());
      device->Free(*span);
      device->FreePinned(*pinned);
    };
    use(first->get());  // the other is current
    use(second->get());
    std::thread([&] { use(second->get()); }).join();  // a new thread begins with device 0
    first->reset();
    second->reset();
    EXPECT_EQ(ExpectNothingFound(), 0U);
  }
}

TEST(CudaDevice, BorrowsAStream) {
  cuda_double::Reset();
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  {
    auto device = CudaDevice::Create({.ordinal = 0, .compute_stream = stream});
    ASSERT_THAT(device, IsOk());
    EXPECT_EQ((*device)->stream(Queue::kCompute), stream);
    EXPECT_THAT((*device)->Record(Queue::kCompute), IsOk());
  }
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(ExpectNothingFound(), 0U);
}

TEST(CudaDevice, KeepsTheTimesOfEventsWhileItsOriginMoves) {
  // Long enough work for some seeds that the origin moves several times.
  for (uint64_t seed = 1; seed <= 32; ++seed) {
    cuda_double::Reset({.seed = seed});
    auto device = CudaDevice::Create();
    ASSERT_THAT(device, IsOk());
    const auto first = (*device)->Record(Queue::kCompute);
    ASSERT_THAT(first, IsOk());
    std::optional<double> first_seconds;
    double last_seconds = 0;
    for (int i = 0; i < 100; ++i) {
      const auto event = (*device)->Record(Queue::kCompute);
      ASSERT_THAT(event, IsOk());
      ASSERT_THAT((*device)->Synchronize(), IsOk());
      if (!first_seconds) first_seconds = (*first)->Seconds();
      EXPECT_LT(last_seconds, (*event)->Seconds());
      last_seconds = (*event)->Seconds();
    }
    EXPECT_EQ((*first)->Seconds(), *first_seconds);
  }
  cuda_double::Reset();
}

TEST(CudaDevice, MayEndBeforeItsEvents) {
  cuda_double::Reset();
  std::shared_ptr<const Event> event;
  {
    auto device = CudaDevice::Create();
    ASSERT_THAT(device, IsOk());
    event = *(*device)->Record(Queue::kToHost);
  }
  event.reset();
  EXPECT_EQ(ExpectNothingFound(), 0U);
}

}  // namespace
}  // namespace stowage
