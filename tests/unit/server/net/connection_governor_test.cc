#include "server/net/connection_governor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/engine/limits/connection_accounts.h"
#include "server/events/observer.h"

namespace stowage {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kMiB = 1 << 20;

// Connections whose sockets and calls the test makes up; a tick is what passes between two looks.
class ConnectionGovernorTest : public testing::Test {
 protected:
  static constexpr milliseconds kTick{10};

  void Add(int id, const std::string& host = "a") {
    governor_.Add(id, host);
    governor_.Update(id, of_[id], now_);
  }
  // A connection that gets `step` in each of so many ticks; the reason for its end, or "".
  template <typename Step>
  std::string Run(int ticks, Step step, int id = 1) {
    for (int tick = 0; tick < ticks; ++tick) {
      step(of_[id]);
      const std::vector<std::string> reasons = Tick({id});
      if (!reasons.empty()) return reasons[0];
    }
    return "";
  }
  std::vector<std::string> Tick(const std::vector<int>& ids) {
    now_ += kTick;
    for (const int id : ids) governor_.Update(id, of_[id], now_);
    std::vector<std::string> reasons;
    for (const auto& [id, reason] : governor_.Judge(now_)) reasons.emplace_back(reason);
    return reasons;
  }

  ConnectionGovernor governor_{{.all_bytes = 64 * kMiB}};
  ConnectionGovernor::Clock::time_point now_{seconds(1000)};
  std::map<int, ConnectionFigures> of_;
};

TEST_F(ConnectionGovernorTest, BytesWithoutCallsOrAnswersAreCutOff) {
  Add(1);
  EXPECT_EQ(Run(100, [](ConnectionFigures& its) { its.received_bytes += kMiB / 4; }), kCutNoCalls);
}

TEST_F(ConnectionGovernorTest, HoweverSlowlyTheyCome) {
  Add(1);
  EXPECT_EQ(Run(10'000, [](ConnectionFigures& its) { its.received_bytes += 1000; }), kCutNoCalls);
}

TEST_F(ConnectionGovernorTest, AnswersToControlFramesAreCutOff) {
  Add(1);
  EXPECT_EQ(Run(100,
                [](ConnectionFigures& its) {
                  its.received_bytes += 17'000;
                  its.sent_bytes += 17'000;
                }),
            kCutControl);
}

// gRPC has begun streams, of which no call comes as fast as they are reset.
TEST_F(ConnectionGovernorTest, StreamsThatNeverBecomeCallsAreCutOff) {
  Add(1);
  EXPECT_EQ(Run(10,
                [](ConnectionFigures& its) {
                  its.received_bytes += 14'000;
                  its.streams += 500;
                  its.calls.begun += 50;
                  its.calls.ended += 50;
                }),
            kCutResets);
}

TEST_F(ConnectionGovernorTest, CallsThatAreAbandonedAndPileUpAreCutOff) {
  Add(1);
  EXPECT_EQ(Run(10,
                [](ConnectionFigures& its) {
                  its.streams += 500;
                  its.calls.begun += 500;
                }),
            kCutResets);
}

TEST_F(ConnectionGovernorTest, CallsThatAreAbandonedAsFastAsTheyEndAreCutOff) {
  Add(1);
  EXPECT_EQ(Run(100,
                [](ConnectionFigures& its) {
                  its.streams += 100;
                  its.calls.begun += 100;
                  its.calls.abandoned += 100;
                  its.calls.ended += 100;
                }),
            kCutResets);
}

TEST_F(ConnectionGovernorTest, TheLargestAreCutOffWhereAllTogetherAreTooMuch) {
  const std::vector<int> ids = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const int id : ids) Add(id, std::to_string(id));
  std::vector<std::string> reasons;
  for (int tick = 0; tick < 100 && reasons.empty(); ++tick) {
    for (const int id : ids) {
      of_[id].received_bytes += kMiB + id;
      of_[id].sent_bytes += 13;  // a window
    }
    reasons = Tick(ids);
  }
  EXPECT_THAT(reasons, ElementsAre(kCutNoCalls)) << "the largest, until the others are within it";
}

// Held for as long as they like, or ended as fast as they come.
TEST_F(ConnectionGovernorTest, StreamsOfManyHostsThatNeverBecomeCallsAreCutOff) {
  for (const bool are_held : {true, false}) {
    std::vector<int> ids;
    for (int i = 0; i < 100; ++i) {
      ids.push_back(i);
      of_[i] = {};
      Add(i, std::to_string(i / 2));
    }
    std::vector<std::string> reasons;
    for (int tick = 0; tick < 100 && reasons.empty(); ++tick) {
      for (const int id : ids) {
        of_[id].streams += 2;
        if (are_held) of_[id].arriving += 2;
      }
      reasons = Tick(ids);
    }
    ASSERT_FALSE(reasons.empty());
    EXPECT_THAT(reasons, testing::Each(std::string(kCutResets)));
    EXPECT_EQ(reasons.size() % 2, 0) << "all of a host";
    for (const int id : ids) governor_.Remove(id);
  }
}

TEST_F(ConnectionGovernorTest, OfManyStreamsTheHostsWithTheMostAreCutOff) {
  Add(1, "honest");
  Add(2, "flood");
  Add(3, "flood");
  of_[1].arriving = 900;
  of_[2].arriving = of_[3].arriving = 600;
  EXPECT_THAT(Tick({1, 2, 3}), ElementsAre(kCutResets, kCutResets));
  EXPECT_FALSE(governor_.Bars("honest", now_));
}

TEST_F(ConnectionGovernorTest, OneCallOnItsWayOnEachOfManyConnectionsIsNoFlood) {
  std::vector<int> ids;
  for (int i = 0; i < 10'000; ++i) {
    ids.push_back(i);
    Add(i);
    of_[i].streams = of_[i].arriving = 1;
  }
  EXPECT_THAT(Tick(ids), IsEmpty());
}

// A busy server reads them all, and sends nothing, before it begins the first call.
TEST_F(ConnectionGovernorTest, ManyLargeMessagesAtOnceAreNoFlood) {
  Add(1);
  of_[1].streams = 50;
  EXPECT_EQ(Run(50, [](ConnectionFigures& its) { its.received_bytes += kMiB; }), "");
  EXPECT_EQ(Run(10, [](ConnectionFigures& its) { its.received_bytes += kMiB; }), kCutNoCalls)
      << "more than their windows hold";
}

TEST_F(ConnectionGovernorTest, StreamsThatBecameCallsLetNothingMorePass) {
  Add(1);
  of_[1].streams = 50;
  of_[1].calls.begun = 50;
  EXPECT_EQ(Run(10, [](ConnectionFigures& its) { its.received_bytes += kMiB; }), kCutNoCalls);
}

TEST_F(ConnectionGovernorTest, LargeMessagesOneAfterTheOtherAreNoFlood) {
  Add(1);
  EXPECT_EQ(Run(1000,
                [tick = 0](ConnectionFigures& its) mutable {
                  its.received_bytes += 2 * kMiB;
                  its.sent_bytes += 64 * 13;  // windows
                  if (++tick % 8 != 0) return;
                  ++its.streams;
                  ++its.calls.begun;
                  its.calls.request_bytes += 16 * kMiB - 1000;
                  ++its.calls.ended;
                  its.calls.answer_bytes += 100;
                  its.sent_bytes += 400;
                }),
            "");
}

TEST_F(ConnectionGovernorTest, HitsAtFullSpeedAreNoFlood) {
  Add(1);
  EXPECT_EQ(Run(1000,
                [](ConnectionFigures& its) {
                  its.received_bytes += 600 * 6000;
                  its.sent_bytes += 600 * 9000;
                  its.streams += 600;
                  its.calls.begun += 600;
                  its.calls.ended += 600;
                  its.calls.request_bytes += 600 * 5900;
                  its.calls.answer_bytes += 600 * 8800;
                }),
            "");
}

// The whole answer is counted at its end, and read for ten seconds after it.
TEST_F(ConnectionGovernorTest, ASlowReaderOfALargeAnswerIsNoFlood) {
  Add(1);
  of_[1].streams = of_[1].calls.begun = of_[1].calls.ended = 1;
  of_[1].calls.answer_bytes = 100 * kMiB;
  of_[1].received_bytes = 2000;
  EXPECT_EQ(Run(1000,
                [](ConnectionFigures& its) {
                  its.sent_bytes += kMiB / 10;
                  its.received_bytes += 100;
                }),
            "");
}

// A thousand ranks over one connection, whose answers the server holds once.
TEST_F(ConnectionGovernorTest, ASlowReaderOfManyAnswersIsNoFlood) {
  Add(1);
  of_[1].streams = of_[1].calls.begun = 1000;
  of_[1].calls.answer_bytes = 1000 * kMiB;
  EXPECT_EQ(Run(1000,
                [](ConnectionFigures& its) {
                  its.sent_bytes += kMiB;
                  its.received_bytes += 100;
                  ++its.calls.ended;
                  its.calls.ended_answer_bytes += kMiB;
                }),
            "");
}

TEST_F(ConnectionGovernorTest, ClientsThatPingAndCancelReasonablyAreNoFlood) {
  Add(1);
  EXPECT_EQ(Run(1000,
                [tick = 0](ConnectionFigures& its) mutable {
                  its.received_bytes += 17;
                  its.sent_bytes += 17;
                  if (++tick % 100 != 0) return;
                  its.streams += 300;  // a search that has found what it looked for
                  its.calls.begun += 300;
                  its.calls.abandoned += 300;
                  its.calls.ended += 300;
                  its.received_bytes += 300 * 5000;
                  its.calls.request_bytes += 300 * 4900;
                }),
            "");
}

// Behind a proxy, or a network that held them up.
TEST_F(ConnectionGovernorTest, AsManyCallsAtOnceAsHttp2AllowsAreNoFlood) {
  Add(1);
  of_[1].received_bytes = kMaxOpenStreams * 300;
  of_[1].streams = kMaxOpenStreams;
  EXPECT_THAT(Tick({1}), IsEmpty());
  of_[1].calls.begun = kMaxOpenStreams;
  EXPECT_THAT(Tick({1}), IsEmpty());
  of_[1].calls.abandoned = kMaxOpenStreams;
  EXPECT_THAT(Tick({1}), IsEmpty());
}

TEST_F(ConnectionGovernorTest, CallsThatHaveBegunAllowMoreStreams) {
  for (const int id : {1, 2, 3}) Add(id, std::to_string(id));
  of_[1].streams = 300;
  of_[2].streams = 1000 + 1000;
  of_[2].calls.begun = of_[2].calls.ended = 1000;
  of_[3].streams = 5000 + 1500;
  of_[3].calls.begun = of_[3].calls.ended = 5000;
  EXPECT_THAT(Tick({1, 2, 3}), ElementsAre(kCutResets, kCutResets));
  EXPECT_TRUE(governor_.Bars("1", now_));
  EXPECT_FALSE(governor_.Bars("2", now_));
  EXPECT_TRUE(governor_.Bars("3", now_)) << "but not without end";
}

TEST_F(ConnectionGovernorTest, AHostIsBarredForTwiceAsLongEachTime) {
  const auto cut_off = [&] {
    of_[1] = {};
    Add(1);
    EXPECT_NE(Run(100, [](ConnectionFigures& its) { its.received_bytes += kMiB; }), "");
  };
  EXPECT_FALSE(governor_.Bars("a", now_));
  cut_off();
  EXPECT_TRUE(governor_.Bars("a", now_ + seconds(59)));
  EXPECT_FALSE(governor_.Bars("a", now_ + seconds(60)));
  EXPECT_FALSE(governor_.Bars("b", now_));
  now_ += seconds(60);
  cut_off();
  EXPECT_TRUE(governor_.Bars("a", now_ + seconds(119)));
  EXPECT_FALSE(governor_.Bars("a", now_ + seconds(120)));
  now_ += seconds(2000);
  cut_off();
  EXPECT_FALSE(governor_.Bars("a", now_ + seconds(60))) << "forgotten";
}

TEST_F(ConnectionGovernorTest, OtherConnectionsOfABarredHostHaveLess) {
  Add(1);
  Add(2);
  Add(3, "b");
  EXPECT_NE(Run(100, [](ConnectionFigures& its) { its.received_bytes += kMiB; }), "");
  for (const int id : {2, 3}) of_[id].streams = kMaxOpenStreams;
  EXPECT_THAT(Tick({2, 3}), IsEmpty()) << "as many as HTTP/2 lets them have";
  for (const int id : {2, 3}) of_[id].streams += 20;
  EXPECT_THAT(Tick({2, 3}), ElementsAre(kCutResets));
  EXPECT_EQ(Run(
                1, [](ConnectionFigures&) {}, 3),
            "")
      << "it was not the one";
}

}  // namespace
}  // namespace stowage
