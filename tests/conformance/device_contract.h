// The contract of Device, as tests of EveryDevice. A source that includes it instantiates them,
// once in a program.
#ifndef STOWAGE_TESTS_CONFORMANCE_DEVICE_CONTRACT_H_
#define STOWAGE_TESTS_CONFORMANCE_DEVICE_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "client/agent/device.h"
#include "gmock/gmock.h"
#include "tests/support/status_matchers.h"

namespace stowage {

struct DeviceKind {
  std::string name;
  std::function<std::unique_ptr<Device>()> make;
};

inline void PrintTo(const DeviceKind& kind, std::ostream* out) { *out << kind.name; }

class EveryDevice : public testing::TestWithParam<DeviceKind> {
 protected:
  static constexpr int64_t kBytes = 100'000;

  EveryDevice() : device_(GetParam().make()) {}

  PinnedSpan Pinned(char fill) {
    const auto span = device_->AllocatePinned(kBytes);
    EXPECT_THAT(span, IsOk());
    std::memset(span->data, fill, kBytes);
    pinned_.push_back(*span);
    return *span;
  }

  DeviceSpan OnDevice() {
    const auto span = device_->Allocate(kBytes);
    EXPECT_THAT(span, IsOk());
    spans_.push_back(*span);
    return *span;
  }

  // Blocks a queue until Go().
  void Block(Queue queue) {
    ASSERT_THAT(device_->Launch(queue,
                                [this](void*) {
                                  while (!go_) std::this_thread::sleep_for(kMoment);
                                  return absl::OkStatus();
                                }),
                IsOk());
  }
  void Go() { go_ = true; }

  void TearDown() override {
    Go();
    EXPECT_THAT(device_->Synchronize(), IsOk());
    for (const DeviceSpan span : spans_) device_->Free(span);
    for (const PinnedSpan span : pinned_) device_->FreePinned(span);
  }

  static constexpr std::chrono::milliseconds kMoment{1};
  const std::unique_ptr<Device> device_;
  std::atomic<bool> go_{false};
  std::vector<DeviceSpan> spans_;
  std::vector<PinnedSpan> pinned_;
};

TEST_P(EveryDevice, CopiesThereAndBack) {
  const PinnedSpan from = Pinned('a');
  const PinnedSpan to = Pinned('b');
  const DeviceSpan middle = OnDevice();
  ASSERT_THAT(device_->Copy(Queue::kToDevice, from, middle), IsOk());
  const auto there = device_->Record(Queue::kToDevice);
  ASSERT_THAT(there, IsOk());
  ASSERT_THAT(device_->Wait(Queue::kToHost, *there), IsOk());
  ASSERT_THAT(device_->Copy(Queue::kToHost, middle, to), IsOk());
  ASSERT_THAT(device_->Synchronize(), IsOk());
  EXPECT_EQ(std::memcmp(from.data, to.data, kBytes), 0);
}

TEST_P(EveryDevice, CopiesNothing) {
  ASSERT_THAT(device_->Copy(Queue::kToDevice, PinnedSpan{}, DeviceSpan{}), IsOk());
  ASSERT_THAT(device_->Copy(Queue::kToHost, DeviceSpan{}, PinnedSpan{}), IsOk());
  EXPECT_THAT(device_->Synchronize(), IsOk());
}

TEST_P(EveryDevice, FreesAnEmptySpan) {
  device_->Free(DeviceSpan{});
  device_->FreePinned(PinnedSpan{});
}

TEST_P(EveryDevice, RunsAQueueInOrder) {
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    ASSERT_THAT(device_->Launch(Queue::kCompute,
                                [&order, i](void*) {
                                  order.push_back(i);
                                  return absl::OkStatus();
                                }),
                IsOk());
  }
  ASSERT_THAT(device_->Synchronize(), IsOk());
  ASSERT_EQ(order.size(), 100U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_P(EveryDevice, GivesEventsTimesInOrder) {
  const auto first = device_->Record(Queue::kCompute);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(device_->Wait(Queue::kToDevice, *first), IsOk());
  const PinnedSpan from = Pinned('a');
  ASSERT_THAT(device_->Copy(Queue::kToDevice, from, OnDevice()), IsOk());
  const auto second = device_->Record(Queue::kToDevice);
  ASSERT_THAT(second, IsOk());
  ASSERT_THAT(device_->Wait(Queue::kToHost, *second), IsOk());
  const auto third = device_->Record(Queue::kToHost);
  ASSERT_THAT(third, IsOk());
  ASSERT_THAT(device_->Synchronize(), IsOk());
  EXPECT_LT((*first)->Seconds(), (*second)->Seconds());
  EXPECT_LE((*second)->Seconds(), (*third)->Seconds());
}

TEST_P(EveryDevice, WaitsForAnEventThatHasHappened) {
  const auto event = device_->Record(Queue::kToHost);
  ASSERT_THAT(event, IsOk());
  ASSERT_THAT(device_->Synchronize(), IsOk());
  ASSERT_THAT(device_->Wait(Queue::kCompute, *event), IsOk());
  EXPECT_THAT(device_->Synchronize(), IsOk());
}

TEST_P(EveryDevice, ReturnsTheFirstErrorOnceAndGoesOn) {
  const auto fail = [this](const char* message) {
    const absl::Status status =
        device_->Launch(Queue::kCompute, [message](void*) { return absl::InternalError(message); });
    return status.ok() ? device_->Synchronize() : status;
  };
  EXPECT_THAT(fail("first"), Fails(absl::StatusCode::kInternal, testing::HasSubstr("first")));
  EXPECT_THAT(device_->Synchronize(), IsOk());
  EXPECT_THAT(fail("second"), Fails(absl::StatusCode::kInternal, testing::HasSubstr("second")));
  bool ran = false;
  ASSERT_THAT(device_->Launch(Queue::kToHost,
                              [&ran](void*) {
                                ran = true;
                                return absl::OkStatus();
                              }),
              IsOk());
  ASSERT_THAT(device_->Synchronize(), IsOk());
  EXPECT_TRUE(ran);
}

TEST_P(EveryDevice, SaysWhatItHasNoMemoryFor) {
  EXPECT_THAT(device_->Allocate(int64_t{1} << 60),
              Fails(absl::StatusCode::kResourceExhausted, testing::HasSubstr("1.00 EiB")));
  EXPECT_THAT(device_->AllocatePinned(int64_t{1} << 60),
              Fails(absl::StatusCode::kResourceExhausted, testing::HasSubstr("1.00 EiB")));
}

}  // namespace stowage

#endif  // STOWAGE_TESTS_CONFORMANCE_DEVICE_CONTRACT_H_
