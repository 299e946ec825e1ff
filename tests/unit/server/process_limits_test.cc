#include "server/process_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;
constexpr int kThreads = 20;

AddressSpace Limit(int64_t limit_bytes) {
  return {.limit_bytes = limit_bytes, .mapped_bytes = 40 * kMiB, .stack_bytes = 8 * kMiB};
}

TEST(ThreadsOf, GrowWithSolverThreadsAndProcessors) {
  EngineOptions options;
  options.threads = 2;
  const int few = ThreadsOf(options, 2);
  EXPECT_GT(ThreadsOf(options, 64), few + 30);
  options.threads = 1024;
  EXPECT_GE(ThreadsOf(options, 2), few + 2 * 1022);
}

TEST(ShareAddressSpace, RefusesTooLittleInOneLine) {
  ServerOptions options;
  EXPECT_THAT(ShareAddressSpace(Limit(200 * kMiB), kThreads, &options),
              Fails(absl::StatusCode::kResourceExhausted,
                    AllOf(HasSubstr("needs 296.00 MiB of address space for 20 threads"),
                          HasSubstr("the limit is 200.00 MiB"), HasSubstr("ulimit -v"),
                          HasSubstr("--threads"))));
}

TEST(ShareAddressSpace, TakesWhatItSaysThatItNeeds) {
  ServerOptions options;
  EXPECT_THAT(ShareAddressSpace(Limit(296 * kMiB - 1), kThreads, &options).status(),
              Fails(absl::StatusCode::kResourceExhausted, testing::_));
  const auto reserves = ShareAddressSpace(Limit(296 * kMiB), kThreads, &options);
  ASSERT_THAT(reserves, IsOk());
  EXPECT_EQ(*reserves, 16 * kMiB);
  EXPECT_EQ(options.cache_bytes, 12 * kMiB);
  EXPECT_EQ(options.engine.all_solves_bytes, 36 * kMiB);
  EXPECT_EQ(options.engine.solve_bytes, 36 * kMiB);
}

TEST(ShareAddressSpace, LeavesLimitsThatFitAlone) {
  ServerOptions options;
  options.cache_bytes = 300 * kMiB;
  options.engine.all_solves_bytes = 500 * kMiB;
  options.engine.solve_bytes = 400 * kMiB;
  ASSERT_THAT(ShareAddressSpace(Limit(4096 * kMiB), kThreads, &options), IsOk());
  EXPECT_EQ(options.cache_bytes, 300 * kMiB);
  EXPECT_EQ(options.engine.all_solves_bytes, 500 * kMiB);
  EXPECT_EQ(options.engine.solve_bytes, 400 * kMiB);
}

TEST(FitIntoProcessLimits, ThisProcessMayStartAServer) {
  ServerOptions options;
  EXPECT_THAT(FitIntoProcessLimits(&options), IsOk());
}

}  // namespace
}  // namespace stowage
