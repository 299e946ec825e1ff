#include "server/warm_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "tests/support/fake_tier.h"
#include "tests/support/numbered_keys.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::HasSubstr;

bool Never() { return false; }

// Lists so many other things and answers, then ends with the status.
class FakeSource final : public AnswerSource {
 public:
  FakeSource(uint64_t answers, absl::Status end, int others = 0)
      : answers_(answers), end_(std::move(end)), others_(others) {}

  absl::Status Visit(absl::FunctionRef<bool(CachedAnswerPtr)> visit) override {
    for (int other = 0; other < others_; ++other) {
      if (!visit(nullptr)) return absl::OkStatus();
    }
    for (uint64_t number = 0; number < answers_; ++number) {
      CachedAnswer cached;
      cached.keys = NumberedKeys(number);
      cached.answer.outcome = Outcome::kFeasible;
      if (!visit(std::make_shared<const CachedAnswer>(std::move(cached)))) return absl::OkStatus();
      if (number + 1 == broken_after_) target_->Break();
    }
    return end_;
  }
  void BreakAfter(uint64_t answers, FakeTier& target) {
    broken_after_ = answers;
    target_ = &target;
  }

 private:
  const uint64_t answers_;
  const absl::Status end_;
  const int others_;
  uint64_t broken_after_ = 0;
  FakeTier* target_ = nullptr;
};

TEST(WarmUp, CopiesAllAnswers) {
  FakeSource source(20, absl::OkStatus());
  FakeTier target;
  const WarmUpResult result = WarmUp(source, target, Never);
  EXPECT_THAT(result.status, IsOk());
  EXPECT_TRUE(result.is_whole);
  EXPECT_EQ(result.copied, 20);
  EXPECT_EQ(target.stats().entries, 20);
  const auto last = target.Get(NumberedKey(19, 1));
  ASSERT_THAT(last, IsOk());
  EXPECT_NE(*last, nullptr);
}

// What other servers have solved meanwhile is newer, also where the same client asked.
TEST(WarmUp, LeavesWhatTheTargetHas) {
  FakeSource source(20, absl::OkStatus());
  FakeTier target;
  CachedAnswer newer;
  newer.keys = NumberedKeys(7);
  newer.answer.outcome = Outcome::kOptimal;
  ASSERT_THAT(target.Put(std::make_shared<const CachedAnswer>(std::move(newer))), IsOk());
  const WarmUpResult result = WarmUp(source, target, Never);
  EXPECT_TRUE(result.is_whole);
  EXPECT_EQ(result.copied, 19);
  EXPECT_EQ(result.present, 1);
  const auto kept = target.Get(NumberedKey(7, 1));
  ASSERT_THAT(kept, IsOk());
  EXPECT_EQ((*kept)->answer.outcome, Outcome::kOptimal);
}

TEST(WarmUp, EndsWhenItIsOver) {
  FakeSource source(20, absl::OkStatus());
  FakeTier target;
  const WarmUpResult result = WarmUp(source, target, [&] { return target.stats().entries == 7; });
  EXPECT_THAT(result.status, IsOk());
  EXPECT_FALSE(result.is_whole);
  EXPECT_EQ(result.copied, 7);
}

// A source that has much else ends, too.
TEST(WarmUp, LooksAtWhatIsNoAnswer) {
  FakeSource source(0, absl::OkStatus(), /*others=*/5);
  FakeTier target;
  int looks = 0;
  EXPECT_TRUE(WarmUp(source, target, Never).is_whole);
  EXPECT_FALSE(WarmUp(source, target, [&] { return ++looks == 3; }).is_whole);
  EXPECT_EQ(looks, 3);
  EXPECT_EQ(target.stats().entries, 0);
}

TEST(WarmUp, SaysThatItsSourceFailed) {
  FakeSource source(3, absl::UnavailableError("gone"));
  FakeTier target;
  const WarmUpResult result = WarmUp(source, target, Never);
  EXPECT_THAT(result.status, Fails(absl::StatusCode::kUnavailable, HasSubstr("gone")));
  EXPECT_FALSE(result.is_whole);
  EXPECT_EQ(result.copied, 3);
  EXPECT_EQ(target.stats().entries, 3);
}

TEST(WarmUp, EndsWhereItsTargetFails) {
  FakeSource source(20, absl::OkStatus());
  FakeTier target;
  source.BreakAfter(5, target);
  const WarmUpResult result = WarmUp(source, target, Never);
  EXPECT_THAT(result.status, Fails(absl::StatusCode::kUnavailable, HasSubstr("broken")));
  EXPECT_FALSE(result.is_whole);
  EXPECT_EQ(result.copied, 5);
}

}  // namespace
}  // namespace stowage
