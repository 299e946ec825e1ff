#include "solver/base/out_of_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <stdexcept>

#include "absl/status/status.h"

namespace stowage {
namespace {

std::unique_ptr<int> RunOut() { throw std::bad_alloc(); }

TEST(UnlessOutOfMemory, ReturnsTheResult) {
  const std::unique_ptr<int> seven =
      UnlessOutOfMemory([] { return std::make_unique<int>(7); }, nullptr);
  ASSERT_NE(seven, nullptr);
  EXPECT_EQ(*seven, 7);
}

TEST(UnlessOutOfMemory, ReturnsTheOtherValueWithoutMemory) {
  EXPECT_EQ(UnlessOutOfMemory(RunOut, nullptr), nullptr);
}

TEST(UnlessOutOfMemory, AsksForTheOtherValueOnceMemoryIsFreeAgain) {
  bool held = false;
  const auto run = [&]() -> absl::Status {
    const std::unique_ptr<bool, void (*)(bool*)> hold(&(held = true),
                                                      [](bool* it) { *it = false; });
    return *hold ? (throw std::bad_alloc()) : absl::OkStatus();
  };
  const absl::Status status = UnlessOutOfMemory(run, [&] {
    return held ? absl::InternalError("still held") : absl::ResourceExhaustedError("too little");
  });
  EXPECT_EQ(status, absl::ResourceExhaustedError("too little"));
}

TEST(UnlessOutOfMemory, LeavesOtherExceptionsAlone) {
  const auto run = []() -> int { throw std::runtime_error("not memory"); };
  EXPECT_THROW(UnlessOutOfMemory(run, 0), std::runtime_error);
}

}  // namespace
}  // namespace stowage
