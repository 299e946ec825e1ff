// SolveStream, and answers that cannot wait for the best.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "proto/convert/chain_message.h"
#include "solver/bounds/memory_range.h"
#include "tests/integration/metrics.h"
#include "tests/integration/rpc.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using std::chrono::seconds;
using std::chrono::system_clock;
using testing::HasSubstr;

// Several seconds of `auto`: 339 stages and a link.
v1::SolveRequest SlowSolveRequest() {
  v1::SolveRequest request;
  *request.mutable_chain() = Profile("preact-resnet1001-8-224");
  v1::Platform& platform = *request.mutable_platform();
  platform.set_memory_bytes(StoreAllPeakBytes(FromMessage(request.chain())) / 5);
  platform.set_offload_bytes_per_second(12e9);
  return request;
}

class StreamTest : public testing::Test {
 protected:
  // All events of a call.
  std::vector<v1::SolveEvent> Events(const v1::SolveRequest& request) {
    grpc::ClientContext context;
    context.set_deadline(system_clock::now() + kPatience);
    const auto reader = stub_->SolveStream(&context, request);
    std::vector<v1::SolveEvent> events;
    v1::SolveEvent event;
    while (reader->Read(&event)) events.push_back(event);
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << Text(status);
    return events;
  }

  ServerProcess server_;
  const Remote remote_{server_.address()};
  const std::unique_ptr<v1::Scheduler::Stub> stub_ = v1::Scheduler::NewStub(remote_.channel());
};

TEST_F(StreamTest, TellsOfTheQueueOfProgressOfBetterSchedulesAndOfTheAnswer) {
  constexpr double kBudgetSeconds = 4;
  v1::SolveRequest request = SlowSolveRequest();
  request.mutable_options()->set_time_budget_seconds(kBudgetSeconds);
  const std::vector<v1::SolveEvent> events = Events(request);
  ASSERT_FALSE(events.empty());
  double fraction = -1;
  double best = 1e300;
  int improvements = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    const v1::SolveEvent& event = events[i];
    EXPECT_EQ(event.has_answer(), i + 1 == events.size());
    if (event.has_running()) {
      EXPECT_EQ(event.running().solver(), "auto");
      EXPECT_GE(event.running().fraction(), fraction);
      fraction = event.running().fraction();
    }
    if (event.has_improved()) {
      ++improvements;
      EXPECT_LT(event.improved().prediction().makespan_seconds(), best);
      best = event.improved().prediction().makespan_seconds();
      EXPECT_LE(event.improved().prediction().peak_memory_bytes(),
                request.platform().memory_bytes());
    }
  }
  EXPECT_GE(fraction, 0);
  EXPECT_GE(improvements, 1);
  EXPECT_LE(events.back().answer().prediction().makespan_seconds(), best);
}

TEST_F(StreamTest, ReturnsACachedAnswerAtOnce) {
  v1::SolveRequest request = SmallSolveRequest();
  request.mutable_options()->set_use_cache(true);
  Events(request);
  const std::vector<v1::SolveEvent> events = Events(request);
  ASSERT_EQ(events.size(), 1);
  EXPECT_EQ(events[0].answer().origin().source(), v1::Origin::MEMORY_CACHE);
  EXPECT_EQ(events[0].answer().origin().fingerprint().size(), 64);
}

TEST_F(StreamTest, EndsWithTheErrorOfAnInvalidRequest) {
  v1::SolveRequest request = SmallSolveRequest();
  request.set_solver("none");
  grpc::ClientContext context;
  const auto reader = stub_->SolveStream(&context, request);
  v1::SolveEvent event;
  EXPECT_FALSE(reader->Read(&event));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(Text(status), HasSubstr("solver"));
  EXPECT_TRUE(ViolationsOf(status).has_value());
}

TEST_F(StreamTest, AReaderWhoNeverReadsHoldsUpNobody) {
  grpc::ClientContext context;
  v1::SolveRequest request = SlowSolveRequest();
  request.mutable_options()->set_time_budget_seconds(1);
  const auto reader = stub_->SolveStream(&context, request);
  v1::SolveResponse response;
  const grpc::Status status = remote_.Solve(request, &response);
  EXPECT_TRUE(status.ok()) << Text(status);
  EXPECT_TRUE(remote_.Answers());
  context.TryCancel();
  reader->Finish();
}

TEST_F(StreamTest, ASolveEndsWhenItsReaderLeaves) {
  v1::SolveRequest request = SlowSolveRequest();
  grpc::ClientContext context;
  const auto reader = stub_->SolveStream(&context, request);
  v1::SolveEvent event;
  ASSERT_TRUE(reader->Read(&event));
  WaitForMetric(server_, "stowage_solves_running", 1);
  context.TryCancel();
  WaitForMetric(server_, "stowage_solves_running", 0);
  reader->Finish();
}

TEST_F(StreamTest, ADeadlineBringsTheBestScheduleSoFar) {
  v1::SolveResponse response;
  grpc::ClientContext context;
  // The first schedule comes at once, the last one after many times this. A twentieth of it is left
  // for sending the schedule, which takes AddressSanitizer 75 ms.
  context.set_deadline(system_clock::now() + seconds(8));
  v1::SolveRequest request = LongSolveRequest(1500, int64_t{200} << 30);
  request.mutable_platform()->set_offload_bytes_per_second(12e9);
  request.set_solver("pofo");
  request.mutable_options()->set_use_cache(true);
  const grpc::Status status = remote_.Solve(request, &response, &context);
  ASSERT_TRUE(status.ok()) << Text(status);
  EXPECT_EQ(response.outcome(), v1::FEASIBLE);
  EXPECT_EQ(response.limit(), v1::TIME);
  // An answer that was cut short is not cached.
  EXPECT_EQ(MetricOf(server_, "stowage_cache_entries{tier=\"memory\"}"), 0);
}

TEST_F(StreamTest, RefusesATimeBudgetThatIsNone) {
  v1::SolveRequest request = SmallSolveRequest();
  request.mutable_options()->set_time_budget_seconds(-1);
  v1::SolveResponse response;
  const grpc::Status status = remote_.Solve(request, &response);
  EXPECT_THAT(Text(status), HasSubstr("options.time_budget_seconds: is -1"));
}

}  // namespace
}  // namespace stowage
