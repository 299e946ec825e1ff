// The contract of Device on this machine's devices, and what holds for host devices alone.
#include <gtest/gtest.h>

#include <atomic>
#include <iostream>
#include <thread>

#include "client/agent/host_device.h"
#include "gmock/gmock.h"
#include "tests/conformance/device_contract.h"
#include "tests/support/status_matchers.h"
#ifdef STOWAGE_CUDA
#include "client/agent/cuda/cuda_device.h"
#endif

namespace stowage {
namespace {

using testing::HasSubstr;

std::vector<DeviceKind> HostDevices() {
  return {{"host", [] { return std::unique_ptr<Device>(new HostDevice); }},
          {"slow_host", [] {
             return std::unique_ptr<Device>(new HostDevice({.offload_bytes_per_second = 1e8,
                                                            .prefetch_bytes_per_second = 2e8,
                                                            .latency_seconds = 1e-4}));
           }}};
}

// The devices of this machine.
std::vector<DeviceKind> AllDevices() {
  std::vector<DeviceKind> devices = HostDevices();
#ifdef STOWAGE_CUDA
  if (CudaDeviceCount() > 0) {
    devices.push_back({"cuda", []() -> std::unique_ptr<Device> { return *CudaDevice::Create(); }});
  }
#endif
  return devices;
}

INSTANTIATE_TEST_SUITE_P(Each, EveryDevice, testing::ValuesIn(AllDevices()),
                         [](const auto& kind) { return kind.param.name; });

// Tests that need work which blocks a queue.
class AHostDevice : public EveryDevice {};

TEST_P(AHostDevice, OverlapsItsQueues) {
  Block(Queue::kCompute);
  const PinnedSpan from = Pinned('a');
  const DeviceSpan to = OnDevice();
  ASSERT_THAT(device_->Copy(Queue::kToDevice, from, to), IsOk());
  std::atomic<bool> copied = false;
  ASSERT_THAT(device_->Launch(Queue::kToDevice,
                              [&copied](void*) {
                                copied = true;
                                return absl::OkStatus();
                              }),
              IsOk());
  while (!copied) std::this_thread::sleep_for(kMoment);  // although compute has not ended
}

TEST_P(AHostDevice, KeepsAQueueFromBeginningBeforeItsEvent) {
  Block(Queue::kCompute);
  const auto event = device_->Record(Queue::kCompute);
  ASSERT_THAT(event, IsOk());
  ASSERT_THAT(device_->Wait(Queue::kToHost, *event), IsOk());
  std::atomic<bool> ran = false;
  ASSERT_THAT(device_->Launch(Queue::kToHost,
                              [&ran](void*) {
                                ran = true;
                                return absl::OkStatus();
                              }),
              IsOk());
  std::this_thread::sleep_for(20 * kMoment);
  EXPECT_FALSE(ran);
  Go();
  ASSERT_THAT(device_->Synchronize(), IsOk());
  EXPECT_TRUE(ran);
}

TEST_P(AHostDevice, SkipsWhatIsEnqueuedAfterAFailure) {
  Block(Queue::kCompute);
  ASSERT_THAT(device_->Launch(Queue::kCompute, [](void*) { return absl::DataLossError("broken"); }),
              IsOk());
  bool ran = false;
  ASSERT_THAT(device_->Launch(Queue::kCompute,
                              [&ran](void*) {
                                ran = true;
                                return absl::OkStatus();
                              }),
              IsOk());
  const auto event = device_->Record(Queue::kCompute);
  ASSERT_THAT(event, IsOk());
  ASSERT_THAT(device_->Wait(Queue::kToHost, *event), IsOk());  // happens even after a failure
  Go();
  EXPECT_THAT(device_->Synchronize(), Fails(absl::StatusCode::kDataLoss, "broken"));
  EXPECT_FALSE(ran);
}

INSTANTIATE_TEST_SUITE_P(Each, AHostDevice, testing::ValuesIn(HostDevices()),
                         [](const auto& kind) { return kind.param.name; });

#ifdef STOWAGE_CUDA
TEST(CudaDevice, IsTestedOrSaidToBeMissing) {
  if (CudaDeviceCount() == 0) std::cout << "no CUDA device here: only host devices were tested\n";
  EXPECT_THAT(CudaDevice::Create({.ordinal = CudaDeviceCount(), .compute_stream = nullptr}),
              Fails(absl::StatusCode::kNotFound, HasSubstr("there is no CUDA device")));
}
#endif

TEST(HostDevice, TakesTheTimeOfItsLink) {
  HostDevice device({.offload_bytes_per_second = 1e7, .latency_seconds = 5e-3});
  const auto from = device.Allocate(100'000);
  const auto to = device.AllocatePinned(100'000);
  const auto begin = device.Record(Queue::kToHost);
  ASSERT_THAT(device.Copy(Queue::kToHost, *from, *to), IsOk());
  const auto end = device.Record(Queue::kToHost);
  ASSERT_THAT(device.Synchronize(), IsOk());
  EXPECT_GE((*end)->Seconds() - (*begin)->Seconds(), 0.015);
  device.Free(*from);
  device.FreePinned(*to);
}

TEST(HostDevice, TakesThatTimeForCopiesThatOthersMake) {
  HostDevice device({.offload_bytes_per_second = 1e9, .prefetch_bytes_per_second = 1e7});
  const auto begin = device.Record(Queue::kToHost);
  const auto nothing = [](void*) { return absl::OkStatus(); };
  // On a half-duplex link both directions use one queue.
  ASSERT_THAT(device.LaunchCopy(Queue::kToHost, Direction::kToDevice, 150'000, nothing), IsOk());
  const auto end = device.Record(Queue::kToHost);
  ASSERT_THAT(device.Synchronize(), IsOk());
  EXPECT_GE((*end)->Seconds() - (*begin)->Seconds(), 0.015);
}

TEST(HostDevice, EndsWithWorkStillEnqueued) {
  std::atomic<int> ran = 0;
  {
    HostDevice device;
    for (int i = 0; i < 10; ++i) {
      ASSERT_THAT(device.Launch(Queue::kCompute,
                                [&ran](void*) {
                                  ++ran;
                                  return absl::OkStatus();
                                }),
                  IsOk());
    }
  }
  EXPECT_EQ(ran, 10);
}

}  // namespace
}  // namespace stowage
