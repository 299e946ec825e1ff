#include "server/rpc/calls/equal_calls.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

const Fingerprint kText = FingerprintOf("a request");

EqualCallsPtr NewCalls() { return std::make_shared<EqualCalls>(ReadOnce{.stages = 3}); }

TEST(CallsInFlight, AreFoundByTheirTextAsLongAsTheyWait) {
  CallsInFlight in_flight;
  EXPECT_FALSE(in_flight.Find(kText).has_value());
  auto keyed = std::make_shared<const KeyedRequest>();
  EqualCallsPtr calls = NewCalls();
  in_flight.Add(kText, calls, keyed);
  EXPECT_FALSE(in_flight.Find(FingerprintOf("another")).has_value());
  const auto found = in_flight.Find(kText);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->calls, calls);
  EXPECT_EQ(found->keyed, keyed);
}

TEST(CallsInFlight, AreForgottenWithTheLastOfThem) {
  CallsInFlight in_flight;
  const auto keyed = std::make_shared<const KeyedRequest>();
  EqualCallsPtr calls = NewCalls();
  in_flight.Add(kText, calls, keyed);
  EqualCallsPtr joined = in_flight.Find(kText)->calls;
  calls = nullptr;
  EXPECT_TRUE(in_flight.Find(kText).has_value());
  joined = nullptr;
  EXPECT_FALSE(in_flight.Find(kText).has_value());
}

TEST(CallsInFlight, AreReadAnewOnceNobodyWaitsWithTheirRequest) {
  CallsInFlight in_flight;
  auto keyed = std::make_shared<const KeyedRequest>();
  const EqualCallsPtr calls = NewCalls();
  in_flight.Add(kText, calls, keyed);
  keyed = nullptr;
  EXPECT_FALSE(in_flight.Find(kText).has_value());
}

// Some that come together are all read: whoever ends does not take the others' entry along.
TEST(CallsInFlight, TheLastOneReadIsJoined) {
  CallsInFlight in_flight;
  const auto keyed = std::make_shared<const KeyedRequest>();
  EqualCallsPtr first = NewCalls();
  const EqualCallsPtr second = NewCalls();
  in_flight.Add(kText, first, keyed);
  in_flight.Add(kText, second, keyed);
  first = nullptr;
  ASSERT_TRUE(in_flight.Find(kText).has_value());
  EXPECT_EQ(in_flight.Find(kText)->calls, second);
}

TEST(CallsInFlight, MayEndBeforeTheirCalls) {
  EqualCallsPtr calls = NewCalls();
  {
    CallsInFlight in_flight;
    in_flight.Add(kText, calls, std::make_shared<const KeyedRequest>());
  }
  calls = nullptr;
}

TEST(EqualCalls, MakeOneResponseForEachAnswer) {
  const EqualCallsPtr calls = NewCalls();
  int made = 0;
  const auto fill = [&made](v1::SolveResponse*) { ++made; };
  const auto early = std::make_shared<const Answer>();
  const auto late = std::make_shared<const Answer>();
  const auto first = calls->ResponseWith(early, "job", fill);
  const auto second = calls->ResponseWith(early, "job", fill);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(made, 1);
  EXPECT_THAT(calls->ResponseWith(late, "job", fill), IsOk());
  EXPECT_EQ(made, 2);
}

}  // namespace
}  // namespace stowage
