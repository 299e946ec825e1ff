#include "client/agent/executor.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "client/agent/host_device.h"
#include "tests/support/chains.h"
#include "tests/support/forwarding_device.h"
#include "tests/support/hash_stages.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

// Counts allocated bytes, and fails allocations and copies after a given number of them.
class FragileDevice final : public ForwardingDevice {
 public:
  explicit FragileDevice(Device* device) : ForwardingDevice(device) {}

  absl::StatusOr<DeviceSpan> Allocate(int64_t bytes) override {
    if (allocations_left-- <= 0) return absl::ResourceExhaustedError("no device memory");
    auto span = device_.Allocate(bytes);
    if (span.ok()) allocated += bytes;
    return span;
  }
  absl::StatusOr<PinnedSpan> AllocatePinned(int64_t bytes) override {
    if (allocations_left-- <= 0) return absl::ResourceExhaustedError("no pinned memory");
    auto span = device_.AllocatePinned(bytes);
    if (span.ok()) allocated += bytes;
    return span;
  }
  void Free(DeviceSpan span) override {
    allocated -= span.bytes;
    device_.Free(span);
  }
  void FreePinned(PinnedSpan span) override {
    allocated -= span.bytes;
    device_.FreePinned(span);
  }
  absl::Status Copy(Queue queue, DeviceSpan from, PinnedSpan to) override {
    if (copies_left-- <= 0) return absl::InternalError("the copy failed");
    return device_.Copy(queue, from, to);
  }
  absl::Status Copy(Queue queue, PinnedSpan from, DeviceSpan to) override {
    if (copies_left-- <= 0) return absl::InternalError("the copy failed");
    return device_.Copy(queue, from, to);
  }
  absl::Status Launch(Queue queue, DeviceWork work) override {
    return runs_in_launch ? work(nullptr) : device_.Launch(queue, std::move(work));
  }
  absl::Status LaunchCopy(Queue queue, Direction direction, int64_t bytes,
                          DeviceWork work) override {
    if (runs_in_launch) return work(nullptr);
    return device_.LaunchCopy(queue, direction, bytes, std::move(work));
  }

  int allocations_left = 1000;
  int copies_left = 1'000'000;
  int64_t allocated = 0;
  bool runs_in_launch = false;  // work runs in the call that launches it, as on an accelerator
};

// Fails in one backward, by a status or an exception.
class FragileStages : public FrameworkHashStages {
 public:
  using FrameworkHashStages::FrameworkHashStages;
  absl::Status Backward(const BackwardCall& call) override {
    if (call.stage == throws_at) throw std::runtime_error("no such kernel");
    if (call.stage == fails_at) return absl::DataLossError("not a number");
    return FrameworkHashStages::Backward(call);
  }

  int throws_at = 0;
  int fails_at = 0;
};

class ExecutorTest : public testing::Test {
 protected:
  ExecutorTest() : platform_(Memory(1000)) { platform_.offload_bytes_per_second = 1; }

  const Chain chain_ = EqualChain(4);
  Platform platform_;
  const Schedule schedule_ = Ops("S1 O1 S2 R1 C3 D4 S5 B5 S3 S4 B4 B3 P1 B2 B1");
  HostDevice host_;
  FragileDevice device_{&host_};
};

class ArenaExecutorTest : public ExecutorTest {
 protected:
  void SetUp() override {
    auto plan = MakeArenaPlan(chain_, platform_, schedule_);
    ASSERT_THAT(plan, IsOk());
    plan_ = *std::move(plan);
    auto executor = ArenaExecutor::Create(&plan_, &device_);
    ASSERT_THAT(executor, IsOk());
    executor_ = *std::move(executor);
  }

  ArenaPlan plan_;
  std::unique_ptr<ArenaExecutor> executor_;
  HashStages stages_{chain_, 1};
};

class FrameworkExecutorTest : public ExecutorTest {
 protected:
  void SetUp() override {
    auto plan = MakeFrameworkPlan(chain_, platform_, schedule_);
    ASSERT_THAT(plan, IsOk());
    plan_ = *std::move(plan);
    auto executor = FrameworkExecutor::Create(&plan_, &device_);
    ASSERT_THAT(executor, IsOk());
    executor_ = *std::move(executor);
  }

  FrameworkPlan plan_;
  std::unique_ptr<FrameworkExecutor> executor_;
  FragileStages stages_{chain_, 1};
};

TEST_F(ArenaExecutorTest, TakesTheMemoryOfThePlanAndGivesItBack) {
  EXPECT_EQ(device_.allocated, plan_.device.layout.bytes + plan_.host.layout.bytes);
  executor_.reset();
  EXPECT_EQ(device_.allocated, 0);
}

TEST_F(ArenaExecutorTest, AllocatesNothingInAThousandSteps) {
  device_.allocations_left = 0;
  const int64_t allocated = device_.allocated;
  const Digest expected = PlainStep(chain_, 1);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_THAT(executor_->Step(&stages_), IsOk());
    ASSERT_EQ(stages_.digest(), expected);
  }
  EXPECT_EQ(device_.allocated, allocated);
}

TEST_F(ArenaExecutorTest, ReportsWhenEachOperationRan) {
  const auto report = executor_->Step(&stages_, Timing::kEveryCommand);
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->commands.size(), plan_.commands.size());
  for (size_t i = 0; i < plan_.commands.size(); ++i) {
    EXPECT_LE(0, report->commands[i].start_seconds);
    EXPECT_LE(report->commands[i].start_seconds, report->commands[i].end_seconds);
    EXPECT_LE(report->commands[i].end_seconds, report->seconds);
    for (const size_t other : plan_.commands[i].waits) {
      EXPECT_LE(report->commands[other].end_seconds, report->commands[i].start_seconds);
    }
  }
}

TEST_F(ArenaExecutorTest, FreesTheArenaWhereThePoolCannotBeAllocated) {
  executor_.reset();
  device_.allocations_left = 1;
  EXPECT_THAT(ArenaExecutor::Create(&plan_, &device_),
              Fails(absl::StatusCode::kResourceExhausted, "no pinned memory"));
  EXPECT_EQ(device_.allocated, 0);
}

TEST_F(ArenaExecutorTest, NamesTheCopyThatFailsAndTriesAgain) {
  device_.copies_left = 1;
  EXPECT_THAT(executor_->Step(&stages_),
              Fails(absl::StatusCode::kInternal, "operations[12] PREFETCH 1: the copy failed"));
  device_.copies_left = 2;
  ASSERT_THAT(executor_->Step(&stages_), IsOk());
  EXPECT_EQ(stages_.digest(), PlainStep(chain_, 1));
}

TEST_F(FrameworkExecutorTest, NamesTheStageThatFailsAndTriesAgain) {
  stages_.fails_at = 3;
  EXPECT_THAT(executor_->Step(&stages_),
              Fails(absl::StatusCode::kDataLoss, "operations[11] BACKWARD 3: not a number"));
  EXPECT_EQ(stages_.held_bytes(), 0);
  stages_.fails_at = 0;
  ASSERT_THAT(executor_->Step(&stages_), IsOk());
  EXPECT_EQ(stages_.digest(), PlainStep(chain_, 1));
}

TEST_F(FrameworkExecutorTest, NamesTheStageOnceWhereWorkRunsInTheLaunch) {
  device_.runs_in_launch = true;
  stages_.fails_at = 3;
  EXPECT_THAT(executor_->Step(&stages_),
              Fails(absl::StatusCode::kDataLoss, "operations[11] BACKWARD 3: not a number"));
  stages_.fails_at = 0;
  ASSERT_THAT(executor_->Step(&stages_), IsOk());
  EXPECT_EQ(stages_.digest(), PlainStep(chain_, 1));
}

TEST_F(FrameworkExecutorTest, NamesTheStageThatThrowsAndTriesAgain) {
  stages_.throws_at = 4;
  EXPECT_THAT(executor_->Step(&stages_),
              Fails(absl::StatusCode::kInternal, "operations[10] BACKWARD 4: no such kernel"));
  EXPECT_EQ(stages_.held_bytes(), 0);
  stages_.throws_at = 0;
  ASSERT_THAT(executor_->Step(&stages_), IsOk());
  EXPECT_EQ(stages_.digest(), PlainStep(chain_, 1));
}

template <typename Executor, typename Stages>
concept Steps = requires(Executor executor, Stages* stages) {
  executor.Step(stages);
};
template <typename Executor, typename SomePlan>
concept Executes = requires(const SomePlan* plan, Device* device) {
  Executor::Create(plan, device);
};

TEST(Executors, DoNotCompileWithPlansOrStagesOfTheOtherKind) {
  static_assert(Steps<ArenaExecutor, ArenaStages> && !Steps<ArenaExecutor, FrameworkStages>);
  static_assert(Steps<FrameworkExecutor, FrameworkStages> &&
                !Steps<FrameworkExecutor, ArenaStages>);
  static_assert(Executes<ArenaExecutor, ArenaPlan> && !Executes<ArenaExecutor, FrameworkPlan>);
  static_assert(Executes<FrameworkExecutor, FrameworkPlan> &&
                !Executes<FrameworkExecutor, ArenaPlan>);
}

}  // namespace
}  // namespace stowage
