// The planner against real servers in every state.
#include "client/lib/planner.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "client/lib/saved_plan/plan_file.h"
#include "gmock/gmock.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/request_message.h"
#include "solver/model/modes.h"
#include "stowage/v1/plan.pb.h"
#include "tests/integration/metrics.h"
#include "tests/integration/rpc.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class FindPlanTest : public testing::Test {
 protected:
  FindPlanTest() {
    request_.chain = FromMessage(Profile("torchvision-resnet18-16-500"));
    request_.platform.memory_bytes = int64_t{1400} << 20;
    request_.options.time_precision = kDefaultTimePrecision;
    options_.servers.clear();
  }

  void NameAnAddressWithoutAServer() {
    options_.servers = {"127.0.0.1:1"};
    options_.patience_seconds = 3;
  }

  PlannedAnswer Find() {
    auto answer = FindPlan(options_, request_);
    EXPECT_THAT(answer, IsOk());
    return answer.value_or(PlannedAnswer{});
  }
  std::string PlanFile() const { return options_.plan_cache + "/" + PlanFileName(request_); }

  TempFolder folder_;
  SolveRequest request_;
  PlannerOptions options_;
};

SolveRequest LongRequest() {
  std::vector<FieldViolation> violations;
  return FromMessage(LongSolveRequest(), &violations);
}

TEST_F(FindPlanTest, AsksTheServer) {
  ServerProcess server;
  options_.servers = {server.address()};
  options_.patience_seconds = 100;
  const PlannedAnswer answer = Find();
  EXPECT_EQ(answer.source, PlanSource::kServer);
  EXPECT_THAT(answer.notes, IsEmpty());
  EXPECT_NE(server.WaitForLogLine({"method=Solve", "code=OK"}), "");
}

TEST_F(FindPlanTest, AsksTheServerThatAnswers) {
  ServerProcess server;
  options_.servers = {"127.0.0.1:1", server.address()};
  options_.patience_seconds = 100;
  const PlannedAnswer answer = Find();
  EXPECT_EQ(answer.source, PlanSource::kServer);
  EXPECT_THAT(answer.notes, IsEmpty());
}

TEST_F(FindPlanTest, SolvesHereWhereNoServerAnswers) {
  NameAnAddressWithoutAServer();
  const PlannedAnswer answer = Find();
  EXPECT_EQ(answer.source, PlanSource::kLocal);
  EXPECT_THAT(answer.notes, ElementsAre(HasSubstr("no answer from a server at 127.0.0.1:1")));
  EXPECT_FALSE(answer.result.answer->schedule.operations.empty());
}

TEST_F(FindPlanTest, SolvesHereAtOnceWhereThereIsNoServerToAsk) {
  const PlannedAnswer answer = Find();
  EXPECT_EQ(answer.source, PlanSource::kLocal);
  EXPECT_THAT(answer.notes, IsEmpty());
}

TEST_F(FindPlanTest, SaysWhatIsWrongWithARequestWithoutAskingTwice) {
  ServerProcess server;
  options_.servers = {server.address()};
  options_.patience_seconds = 100;
  request_.chain.stages[3].saved_bytes = -1;
  EXPECT_THAT(FindPlan(options_, request_),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("chain.stages[3].saved_bytes")));
  options_.servers.clear();
  EXPECT_THAT(FindPlan(options_, request_),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("chain.stages[3].saved_bytes")));
}

TEST_F(FindPlanTest, WaitsForAServerThatComesBack) {
  // An address of its own, so that no other test gets its port meanwhile.
  std::string address;
  {
    ServerProcess server({}, "127.0.0.3:0");
    address = server.address();
  }
  options_.servers = {address};
  options_.patience_seconds = 100;
  std::unique_ptr<ServerProcess> server;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    server = std::make_unique<ServerProcess>(std::vector<std::string>(), address);
  });
  const PlannedAnswer answer = Find();
  later.join();
  EXPECT_EQ(answer.source, PlanSource::kServer);
}

TEST_F(FindPlanTest, SolvesHereWhereTheServerDiesInMidRequest) {
  ServerProcess server({std::begin(kOneAtATime), std::end(kOneAtATime)});
  options_.servers = {server.address()};
  options_.patience_seconds = 20;
  options_.local.timeout_seconds = 0.1;
  request_ = LongRequest();
  std::thread killer([&server] {
    WaitForMetric(server, "stowage_solves_running", 1);
    server.Signal(SIGKILL);
  });
  // The error of the local solve says that the server was tried.
  EXPECT_THAT(FindPlan(options_, request_),
              Fails(absl::StatusCode::kDeadlineExceeded,
                    AllOf(HasSubstr("no answer from a server"), HasSubstr("solving here"))));
  killer.join();
}

TEST_F(FindPlanTest, WaitsForAPlaceInTheQueue) {
  ServerProcess server({std::begin(kOneAtATime), std::end(kOneAtATime)});
  options_.servers = {server.address()};
  options_.patience_seconds = 100;
  const Remote remote(server.address());
  const auto running = Occupy(remote, LongSolveRequest());
  std::thread later([&] {
    EXPECT_NE(server.WaitForLogLine({"method=Solve", "stages=13", "code=RESOURCE_EXHAUSTED"}), "");
    running->Cancel();
  });
  EXPECT_EQ(Find().source, PlanSource::kServer);
  later.join();
}

TEST_F(FindPlanTest, DoesNotWaitForAServerThatTakesTooLong) {
  ServerProcess server;
  options_.servers = {server.address()};
  options_.patience_seconds = 0.3;
  options_.local.timeout_seconds = 0.1;
  request_ = LongRequest();
  EXPECT_THAT(FindPlan(options_, request_),
              Fails(absl::StatusCode::kDeadlineExceeded,
                    AllOf(HasSubstr("did not answer within"),
                          HasSubstr("solving here: no answer within 0.1 s"))));
}

TEST_F(FindPlanTest, StartsAgainFromItsLastPlan) {
  options_.plan_cache = folder_.Path("new/plans");
  const PlannedAnswer first = Find();
  EXPECT_EQ(first.source, PlanSource::kLocal);
  EXPECT_TRUE(std::filesystem::exists(PlanFile()));

  const PlannedAnswer second = Find();
  EXPECT_EQ(second.source, PlanSource::kPlanFile);
  EXPECT_THAT(second.notes, IsEmpty());
  EXPECT_EQ(second.result.answer->schedule.operations, first.result.answer->schedule.operations);
  EXPECT_EQ(second.result.answer->prediction.makespan_seconds,
            first.result.answer->prediction.makespan_seconds);
}

TEST_F(FindPlanTest, PrefersAServerToWhatWasSolvedWithoutOne) {
  options_.plan_cache = folder_.Path("plans");
  EXPECT_EQ(Find().source, PlanSource::kLocal);
  std::string fingerprint;
  {
    ServerProcess server;
    options_.servers = {server.address()};
    options_.patience_seconds = 100;
    const PlannedAnswer answer = Find();
    EXPECT_EQ(answer.source, PlanSource::kServer);
    fingerprint = answer.result.origin.fingerprint;
    EXPECT_EQ(fingerprint.size(), 64);
  }
  const PlannedAnswer saved = Find();
  EXPECT_EQ(saved.source, PlanSource::kPlanFile);  // at once, now that it is a server's
  EXPECT_EQ(saved.result.origin.fingerprint, fingerprint);
}

TEST_F(FindPlanTest, TakesWhatWasSolvedWithoutAServerWhereStillNoneAnswers) {
  options_.plan_cache = folder_.Path("plans");
  EXPECT_EQ(Find().source, PlanSource::kLocal);
  NameAnAddressWithoutAServer();
  const PlannedAnswer answer = Find();
  EXPECT_EQ(answer.source, PlanSource::kPlanFile);
  EXPECT_THAT(answer.notes, ElementsAre(HasSubstr("no answer from a server")));
}

TEST_F(FindPlanTest, SolvesAgainAfterAnotherVersionOfTheSolver) {
  options_.plan_cache = folder_.Path("plans");
  Find();
  v1::SavedPlan plan;
  ASSERT_TRUE(plan.ParseFromString(ReadFile(PlanFile())));
  EXPECT_GT(plan.solver_version(), 0);
  plan.set_solver_version(plan.solver_version() + 1);
  WriteFile(PlanFile(), plan.SerializeAsString());
  const PlannedAnswer answer = Find();
  EXPECT_EQ(answer.source, PlanSource::kLocal);
  EXPECT_THAT(answer.notes, Contains(HasSubstr("another version of its solver")));
}

TEST_F(FindPlanTest, TakesAPlanWhoseRequestLeavesOptionsToTheirDefaults) {
  options_.plan_cache = folder_.Path("plans");
  Find();
  v1::SavedPlan plan;
  ASSERT_TRUE(plan.ParseFromString(ReadFile(PlanFile())));
  plan.mutable_request()->clear_options();
  WriteFile(PlanFile(), plan.SerializeAsString());
  EXPECT_EQ(Find().source, PlanSource::kPlanFile);
}

TEST_F(FindPlanTest, SavesFromManyThreadsAtOnce) {
  options_.plan_cache = folder_.Path("plans");
  std::vector<std::thread> ranks;
  ranks.reserve(8);
  for (int i = 0; i < 8; ++i) {
    ranks.emplace_back([this] {
      const auto answer = FindPlan(options_, request_);
      EXPECT_THAT(answer, IsOk());
      EXPECT_THAT(answer.value_or(PlannedAnswer{}).notes, IsEmpty());
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(Find().source, PlanSource::kPlanFile);
  const std::filesystem::directory_iterator files(options_.plan_cache);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);  // nothing is left over
}

TEST_F(FindPlanTest, HasAnyPatience) {
  ServerProcess server;
  options_.servers = {server.address()};
  options_.patience_seconds = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Find().source, PlanSource::kServer);
  // No patience is one call.
  options_.servers = {"127.0.0.1:1"};
  options_.patience_seconds = -1;
  EXPECT_EQ(Find().source, PlanSource::kLocal);
  options_.patience_seconds = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(FindPlan(options_, request_),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("patience_seconds")));
}

TEST_F(FindPlanTest, TakesAPlanForTimesThatWereMeasuredAgain) {
  options_.plan_cache = folder_.Path("plans");
  const PlannedAnswer first = Find();
  for (Stage& stage : request_.chain.stages) {
    stage.forward_seconds *= 1.1;
    stage.backward_seconds *= 1.1;
  }
  const PlannedAnswer second = Find();
  EXPECT_EQ(second.source, PlanSource::kPlanFile);
  const Answer& answer = *second.result.answer;
  EXPECT_NEAR(answer.prediction.makespan_seconds,
              1.1 * first.result.answer->prediction.makespan_seconds, 1e-4);
  // Optimal for the old times need not be optimal for the new ones, save at the lower bound.
  EXPECT_EQ(answer.outcome, answer.prediction.gap <= 0 ? Outcome::kOptimal : Outcome::kFeasible);
}

TEST_F(FindPlanTest, TakesAPlanForTimesOfGraphModeThatWereMeasuredAgain) {
  options_.plan_cache = folder_.Path("plans");
  Chain& chain = request_.chain;
  for (Stage& stage : chain.stages) {
    stage.graph = GraphCosts{.forward_seconds = stage.forward_seconds / 2,
                             .backward_seconds = stage.backward_seconds / 2,
                             .saved_bytes = stage.saved_bytes};
  }
  chain.graph_entry_seconds = 1e-5;
  const PlannedAnswer first = Find();
  EXPECT_EQ(first.source, PlanSource::kLocal);
  EXPECT_TRUE(HasGraphOperations(first.result.answer->schedule));
  for (Stage& stage : chain.stages) stage.graph->forward_seconds *= 1.001;
  chain.graph_entry_seconds = 1.1e-5;
  EXPECT_EQ(Find().source, PlanSource::kPlanFile);
  chain.stages[2].graph->backward_overhead_bytes = 12345;
  EXPECT_EQ(Find().source, PlanSource::kLocal);
}

TEST_F(FindPlanTest, SolvesAgainWhereTheChainHasChanged) {
  options_.plan_cache = folder_.Path("plans");
  Find();
  request_.chain.stages[4].backward_overhead_bytes = 12345;
  const PlannedAnswer other_size = Find();
  EXPECT_EQ(other_size.source, PlanSource::kLocal);
  EXPECT_THAT(other_size.notes,
              Contains(HasSubstr("was made for stage 5 (layer1.1)'s backward_overhead_bytes ")));
  EXPECT_EQ(Find().source, PlanSource::kPlanFile);  // the new one was saved
}

TEST_F(FindPlanTest, SaysForWhichMemoryTheLastPlanWas) {
  options_.plan_cache = folder_.Path("plans");
  EXPECT_THAT(Find().notes, IsEmpty());
  request_.platform.memory_bytes += int64_t{100} << 20;
  const PlannedAnswer other = Find();
  EXPECT_EQ(other.source, PlanSource::kLocal);
  EXPECT_THAT(other.notes, ElementsAre(AllOf(HasSubstr("the plan of "),
                                             HasSubstr(" was made for memory 1.37 GiB, now "))));
  EXPECT_EQ(Find().source, PlanSource::kPlanFile);
}

// What a profile measures anew at every start: times of stages, the speed of the link, and whether
// it is full duplex.
TEST_F(FindPlanTest, StartsSevenTimesFromItsPlanHoweverTheMeasurementsMove) {
  const Chain chain = request_.chain;
  for (const char* solver : {"rotor", "auto"}) {
    SCOPED_TRACE(solver);
    request_.solver = solver;
    options_.plan_cache = folder_.Path(solver);
    std::mt19937 random(3);
    std::uniform_real_distribution<double> noise(0.9, 1.1);
    int hits = 0;
    for (int start = 0; start <= 7; ++start) {
      request_.chain = chain;
      for (Stage& stage : request_.chain.stages) {
        stage.forward_seconds *= noise(random);
        stage.backward_seconds *= noise(random);
      }
      Platform& platform = request_.platform;
      platform.offload_bytes_per_second = 12e9 * noise(random);
      platform.prefetch_bytes_per_second = 12e9 * noise(random);
      platform.transfer_latency_seconds = 1e-5 * noise(random);
      platform.half_duplex = start % 2 == 1;
      const PlannedAnswer planned = Find();
      EXPECT_THAT(planned.notes, IsEmpty());
      hits += planned.source == PlanSource::kPlanFile;
    }
    EXPECT_EQ(hits, 7);
  }
}

TEST_F(FindPlanTest, SolvesAgainWhereTheScheduleLosesMoreThanItDid) {
  options_.plan_cache = folder_.Path("plans");
  const PlannedAnswer first = Find();
  // What is recomputed has become slow.
  ASSERT_GT(first.result.answer->prediction.recompute_seconds, 0);
  for (const StageFate& fate : first.result.answer->explanation.stages) {
    if (fate.recomputed == 0) continue;
    request_.chain.stages[static_cast<size_t>(fate.stage) - 1].forward_seconds *= 3;
  }
  const PlannedAnswer second = Find();
  EXPECT_EQ(second.source, PlanSource::kLocal);
  EXPECT_THAT(second.notes, Contains(HasSubstr("loses more than it did")));
}

TEST_F(FindPlanTest, DropsAFileThatIsBroken) {
  options_.plan_cache = folder_.Path("plans");
  Find();
  for (const char* content : {"", "garbage", "\x0a\xff\xff"}) {
    WriteFile(PlanFile(), content);
    const PlannedAnswer answer = Find();
    EXPECT_EQ(answer.source, PlanSource::kLocal) << content;
    EXPECT_THAT(answer.notes, Contains(HasSubstr("is not a saved plan")));
  }
  EXPECT_EQ(Find().source, PlanSource::kPlanFile);
}

TEST_F(FindPlanTest, AnswersAlsoWhereNoPlanCanBeSaved) {
  folder_.Write("file", "in the way");
  options_.plan_cache = folder_.Path("file");
  const PlannedAnswer answer = Find();
  EXPECT_FALSE(answer.result.answer->schedule.operations.empty());
  EXPECT_THAT(answer.notes, Contains(HasSubstr("cannot write")));
}

}  // namespace
}  // namespace stowage
