// What the service answers over the wire: valid requests, invalid ones, and those that take too
// long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "grpcpp/grpcpp.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/schedule_message.h"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "solver/export/targets.h"
#include "solver/simulator/simulator.h"
#include "tests/integration/rpc.h"
#include "tests/support/chains.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using grpc::StatusCode;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// resnet101 at a budget; storing everything takes 3.8 GiB.
v1::SolveRequest Resnet101(int64_t memory_bytes) {
  v1::SolveRequest request;
  *request.mutable_chain() = Profile("torchvision-resnet101-32-224");
  request.mutable_platform()->set_memory_bytes(memory_bytes);
  return request;
}

v1::SimulateRequest SmallSimulation(absl::string_view operations) {
  v1::SimulateRequest request;
  *request.mutable_chain() = ToMessage(EqualChain(3));
  request.mutable_platform()->set_memory_bytes(1000);
  request.mutable_platform()->set_offload_bytes_per_second(10);
  *request.mutable_schedule() = ToMessage(Ops(operations));
  return request;
}

// A server that all tests of the process share: none of them may harm it.
class Service : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new ServerProcess; }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void TearDown() override { EXPECT_TRUE(remote_.Answers()) << server_->Log(); }

  static ServerProcess* server_;
  const Remote remote_{server_->address()};
};
ServerProcess* Service::server_ = nullptr;

TEST_F(Service, SolvesTheProfileOfARealNetworkWithinItsBudget) {
  const Chain chain = FromMessage(Profile("torchvision-resnet101-32-224"));
  const int64_t budget = StoreAllPeakBytes(chain) / 4;
  v1::SolveResponse response;
  const grpc::Status status = remote_.Solve(Resnet101(budget), &response);
  ASSERT_TRUE(status.ok()) << Text(status);
  // rotor wins; the lower bound proves its schedule, although 500 slots round.
  EXPECT_EQ(response.outcome(), v1::OPTIMAL);
  EXPECT_EQ(response.prediction().gap(), 0);
  EXPECT_EQ(response.platform().memory_bytes(), budget);
  EXPECT_EQ(response.memory_floor_bytes(), FloorOfMemory(chain).bytes);
  EXPECT_EQ(response.explanation().stages_size(), chain.length());
  EXPECT_GT(response.explanation().peaks_size(), 0);
  EXPECT_GT(response.origin().solve_seconds(), 0);
  EXPECT_THAT(response.origin().solver(), testing::AnyOf("rotor", "periodic"));

  // Judged here, on the exact chain: what the server says of its schedule is what it does.
  std::vector<FieldViolation> violations;
  const Schedule schedule = FromMessage(response.schedule(), &violations);
  ASSERT_THAT(violations, SizeIs(0));
  const absl::StatusOr<Simulation> judged = SimulateWithBound(chain, Memory(budget), schedule);
  ASSERT_TRUE(judged.ok()) << judged.status();
  EXPECT_TRUE(judged->feasible());
  EXPECT_LE(judged->prediction.peak_memory_bytes, budget);
  EXPECT_EQ(judged->prediction.peak_memory_bytes, response.prediction().peak_memory_bytes());
  EXPECT_EQ(judged->prediction.makespan_seconds, response.prediction().makespan_seconds());
  EXPECT_EQ(judged->prediction.recompute_seconds, response.prediction().recompute_seconds());
  EXPECT_GT(response.prediction().recompute_seconds(), 0);
  EXPECT_LT(response.prediction().overhead(), 0.5) << "no worse than running every forward twice";
}

TEST_F(Service, ExportsThePlanThatAFrameworkCanExpress) {
  v1::SolveRequest request = Resnet101(1'750'000'000);
  request.mutable_options()->set_time_precision(0);
  v1::SolveResponse plain;
  ASSERT_TRUE(remote_.Solve(request, &plain).ok());
  EXPECT_FALSE(plain.has_exported());
  const Chain chain = FromMessage(request.chain());
  for (const Target& target : AllTargets()) {
    SCOPED_TRACE(target.name);
    request.set_export_for(std::string(target.name));
    v1::SolveResponse response;
    const grpc::Status status = remote_.Solve(request, &response);
    ASSERT_TRUE(status.ok()) << Text(status);
    EXPECT_EQ(response.origin().fingerprint(), plain.origin().fingerprint());
    EXPECT_EQ(response.schedule().SerializeAsString(), plain.schedule().SerializeAsString());

    // Judged here.
    const v1::ComparedSchedule& plan = response.exported().plan();
    std::vector<FieldViolation> violations;
    const Schedule schedule = FromMessage(plan.schedule(), &violations);
    ASSERT_THAT(violations, SizeIs(0));
    const absl::StatusOr<Simulation> judged =
        Simulate(chain, Memory(request.platform().memory_bytes()), schedule);
    ASSERT_TRUE(judged.ok()) << judged.status();
    EXPECT_TRUE(judged->feasible());
    EXPECT_EQ(judged->prediction.makespan_seconds, plan.prediction().makespan_seconds());
    EXPECT_GE(plan.prediction().makespan_seconds(), response.prediction().makespan_seconds());
    ASSERT_EQ(response.exported().comparison_size(), 3);
    for (const std::string& line : response.exported().comparison()) {
      EXPECT_THAT(response.exported().text(), HasSubstr(line));
    }

    // Again, from the response that is kept with its text.
    v1::SolveResponse again;
    ASSERT_TRUE(remote_.Solve(request, &again).ok());
    EXPECT_EQ(again.exported().SerializeAsString(), response.exported().SerializeAsString());
  }
}

TEST_F(Service, RefusesWhatItCannotExport) {
  const auto violation = [this](const char* target, const char* layers) {
    v1::SolveRequest request = SmallSolveRequest();
    if (*target != 0) request.set_export_for(target);
    if (*layers != 0) request.set_export_layers(layers);
    v1::SolveResponse response;
    const grpc::Status status = remote_.Solve(request, &response);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  };
  EXPECT_THAT(violation("keras", ""), AllOf(HasSubstr("export_for: 'keras'"), HasSubstr("jax")));
  EXPECT_THAT(violation("jax", "2:9"), AllOf(HasSubstr("export_layers: '2:9'"), HasSubstr("1:3")));
  EXPECT_THAT(violation("deepspeed", "2:3"), HasSubstr("export_layers: '2:3' leaves stages out"));
  EXPECT_THAT(violation("", "1:3"), HasSubstr("export_layers: is of no use without export_for"));
}

TEST_F(Service, TheMinimumMemoryWorksAndOneByteLessDoesNot) {
  for (const char* solver : {"auto", "store_all", "periodic", "rotor"}) {
    SCOPED_TRACE(solver);
    v1::SolveRequest request = Resnet101(1);
    request.set_solver(solver);
    v1::SolveResponse response;
    ASSERT_TRUE(remote_.Solve(request, &response).ok());
    EXPECT_EQ(response.outcome(), v1::INFEASIBLE);
    EXPECT_FALSE(response.has_schedule());
    EXPECT_FALSE(response.has_prediction());
    EXPECT_EQ(response.origin().solver(), solver);
    ASSERT_TRUE(response.has_minimum_memory_bytes());
    const int64_t minimum = response.minimum_memory_bytes();
    EXPECT_GE(minimum, response.memory_floor_bytes());
    EXPECT_EQ(response.memory_floor_operation().kind(), v1::Operation::BACKWARD);
    EXPECT_EQ(response.memory_floor_operation().stage(), 4);

    request.mutable_platform()->set_memory_bytes(minimum - 1);
    ASSERT_TRUE(remote_.Solve(request, &response).ok());
    EXPECT_EQ(response.outcome(), v1::INFEASIBLE);
    EXPECT_EQ(response.minimum_memory_bytes(), minimum);

    request.mutable_platform()->set_memory_bytes(minimum);
    ASSERT_TRUE(remote_.Solve(request, &response).ok());
    EXPECT_NE(response.outcome(), v1::INFEASIBLE);
    EXPECT_LE(response.prediction().peak_memory_bytes(), minimum);
  }
}

TEST_F(Service, MemoryForEverythingIsUsedForEverything) {
  v1::SolveResponse response;
  ASSERT_TRUE(remote_.Solve(Resnet101(int64_t{8} << 30), &response).ok());
  EXPECT_EQ(response.outcome(), v1::OPTIMAL);
  EXPECT_EQ(response.limit(), v1::LIMIT_NONE);
  EXPECT_EQ(response.prediction().recompute_seconds(), 0);
  EXPECT_EQ(response.prediction().gap(), 0);
}

// What the frontier says of a budget, a solve for that budget says, too.
TEST_F(Service, AFrontierIsWhatSolvesOfItsBudgetsFind) {
  v1::FrontierRequest request;
  *request.mutable_chain() = Profile("torchvision-resnet101-32-224");
  request.set_solver("rotor");
  request.set_points(6);
  v1::FrontierResponse frontier;
  ASSERT_TRUE(remote_.Frontier(request, &frontier).ok());
  ASSERT_EQ(frontier.points_size(), 6);
  EXPECT_EQ(frontier.solves(), 1);
  EXPECT_EQ(frontier.origin().solver(), "rotor");
  EXPECT_EQ(frontier.points(0).memory_bytes(), frontier.minimum_memory_bytes());
  EXPECT_EQ(frontier.points(5).memory_bytes(), frontier.most_memory_bytes());
  EXPECT_EQ(frontier.points(5).prediction().overhead(), 0);
  ASSERT_TRUE(frontier.has_knee());
  double last = std::numeric_limits<double>::infinity();
  for (const v1::FrontierPoint& point : frontier.points()) {
    v1::SolveRequest solve;
    *solve.mutable_chain() = request.chain();
    solve.mutable_platform()->set_memory_bytes(point.memory_bytes());
    solve.set_solver("rotor");
    v1::SolveResponse answer;
    ASSERT_TRUE(remote_.Solve(solve, &answer).ok());
    EXPECT_NEAR(point.prediction().makespan_seconds(), answer.prediction().makespan_seconds(),
                2e-3 * answer.prediction().makespan_seconds());
    EXPECT_LE(point.prediction().peak_memory_bytes(), point.memory_bytes());
    EXPECT_LE(point.prediction().makespan_seconds(), last);
    last = point.prediction().makespan_seconds();
  }
  EXPECT_NE(server_->WaitForLogLine({"method=Frontier", "solver=rotor", "stages=38", "code=OK"}),
            "");
}

TEST_F(Service, AFrontierIsCachedForTheSameRequest) {
  v1::FrontierRequest request;
  *request.mutable_chain() = Profile("torchvision-resnet18-16-500");
  request.mutable_platform()->set_memory_bytes(int64_t{1} << 40);
  v1::FrontierResponse first;
  ASSERT_TRUE(remote_.Frontier(request, &first).ok());
  EXPECT_EQ(first.origin().source(), v1::Origin::SOLVED);
  v1::FrontierResponse again;
  ASSERT_TRUE(remote_.Frontier(request, &again).ok());
  EXPECT_EQ(again.origin().source(), v1::Origin::MEMORY_CACHE);
  *again.mutable_origin() = first.origin();
  EXPECT_EQ(again.SerializeAsString(), first.SerializeAsString());
  EXPECT_NE(server_->WaitForLogLine({"method=Frontier", "solver=auto", "source=MEMORY_CACHE"}), "");
  request.mutable_options()->set_use_cache(false);
  ASSERT_TRUE(remote_.Frontier(request, &again).ok());
  EXPECT_EQ(again.origin().source(), v1::Origin::SOLVED);
  // A Solve of the same bytes is another question.
  v1::SolveRequest solve;
  *solve.mutable_chain() = request.chain();
  *solve.mutable_platform() = request.platform();
  v1::SolveResponse answer;
  ASSERT_TRUE(remote_.Solve(solve, &answer).ok());
  EXPECT_EQ(answer.outcome(), v1::OPTIMAL);
  EXPECT_EQ(answer.origin().source(), v1::Origin::SOLVED);
}

TEST_F(Service, AFrontierTakesItsBudgetsFromTheCaller) {
  v1::FrontierRequest request;
  *request.mutable_chain() = ToMessage(EqualChain(3));
  for (const int64_t bytes : {1000, 1}) request.add_memory_bytes(bytes);
  v1::FrontierResponse frontier;
  ASSERT_TRUE(remote_.Frontier(request, &frontier).ok());
  ASSERT_EQ(frontier.points_size(), 2);
  EXPECT_EQ(frontier.points(0).outcome(), v1::INFEASIBLE);
  EXPECT_EQ(frontier.points(1).outcome(), v1::OPTIMAL);
}

TEST_F(Service, ABadFrontierRequestIsRefusedByTheNameOfItsField) {
  v1::FrontierRequest request;
  *request.mutable_chain() = ToMessage(EqualChain(3));
  request.set_points(1);
  request.set_solver("rotter");
  v1::FrontierResponse frontier;
  const grpc::Status status = remote_.Frontier(request, &frontier);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("points"));
  EXPECT_THAT(status.error_message(), HasSubstr("rotter"));
  request.add_memory_bytes(5);
  request.set_solver("");
  const grpc::Status both = remote_.Frontier(request, &frontier);
  EXPECT_THAT(both.error_message(), HasSubstr("give one of the two"));
}

TEST_F(Service, ListsItsSolvers) {
  v1::ListSolversResponse response;
  ASSERT_TRUE(remote_.ListSolvers(&response).ok());
  std::vector<std::string> names;
  for (const v1::SolverDescription& solver : response.solvers()) {
    names.push_back(solver.name());
    EXPECT_NE(solver.summary(), "") << solver.name();
    EXPECT_NE(solver.guarantee(), "") << solver.name();
    EXPECT_NE(solver.complexity(), "") << solver.name();
    EXPECT_GT(solver.version(), 0) << solver.name();
    v1::SolveRequest request = SmallSolveRequest();
    request.set_solver(solver.name());
    v1::SolveResponse solved;
    EXPECT_TRUE(remote_.Solve(request, &solved).ok()) << solver.name();
  }
  EXPECT_THAT(names, AllOf(Contains("auto"), Contains("rotor"), Contains("store_all")));
}

TEST_F(Service, SimulatesAScheduleWithTransfers) {
  // Each stage: forward 1 s, backward 2 s; value 0 of 10 bytes takes a second to the host and one
  // back, behind compute.
  v1::SimulateResponse response;
  const grpc::Status status =
      remote_.Simulate(SmallSimulation("S1 O0 R0 S2 S3 S4 B4 B3 B2 P0 B1"), &response);
  ASSERT_TRUE(status.ok()) << Text(status);
  EXPECT_TRUE(response.feasible());
  EXPECT_FALSE(response.has_first_over_limit());
  EXPECT_EQ(response.timeline_size(), 11);
  EXPECT_EQ(response.prediction().compute_seconds(), 9);
  EXPECT_EQ(response.prediction().peak_host_bytes(), 10);
  // The RELEASE holds the second forward up until the copy is complete, and the last backward
  // waits for its input to come back.
  EXPECT_EQ(response.prediction().idle_seconds(), 2);
  EXPECT_EQ(response.prediction().makespan_seconds(), 11);
}

TEST_F(Service, SaysWhichOperationIsOverALimit) {
  v1::SimulateRequest request = SmallSimulation("S1 S2 S3 S4 B4 B3 B2 B1");
  request.mutable_platform()->set_memory_bytes(75);  // 10 + 30 + 30 fit, 30 more do not
  v1::SimulateResponse response;
  ASSERT_TRUE(remote_.Simulate(request, &response).ok());
  EXPECT_FALSE(response.feasible());
  EXPECT_EQ(response.first_over_limit(), 2);
  EXPECT_GT(response.prediction().peak_memory_bytes(), 75);
}

TEST_F(Service, AnInvalidScheduleIsAnErrorThatBeginsWithItsOperation) {
  struct Case {
    const char* operations;
    const char* begins;
  };
  const Case cases[] = {
      {"S1 S3", "operations[1] FORWARD_SAVE 3: "},
      {"S1 C2 S3 S4 B4 B3 B2", "operations[6] BACKWARD 2: "},
      {"S1 S2 S3 S4 B4 B3 B2", "operations[7] END: "},
      {"S1 S2 S3 S4 B4 B3 B2 B1 O1", "operations[8] OFFLOAD 1: "},
      {"S1 S9", "operations[1] FORWARD_SAVE 9: "},
      {"", "operations[0] END: "},
  };
  for (const Case& bad : cases) {
    v1::SimulateResponse response;
    const grpc::Status status = remote_.Simulate(SmallSimulation(bad.operations), &response);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << bad.operations;
    EXPECT_THAT(status.error_message(), StartsWith(bad.begins));
    EXPECT_THAT(status.error_message(), Not(HasSubstr("\n")));
  }
}

TEST_F(Service, AnOperationOfNoKindIsNamed) {
  v1::SimulateRequest request = SmallSimulation("S1 S2");
  request.mutable_schedule()->mutable_operations(1)->set_kind(static_cast<v1::Operation::Kind>(17));
  v1::SimulateResponse response;
  const grpc::Status status = remote_.Simulate(request, &response);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), StartsWith("schedule.operations[1].kind: "));
}

// One thing wrong with a request: the error names it, in its message and in typed details.
struct BadRequest {
  const char* name;
  const char* field;
  const char* problem;  // part of what is said of it
  std::function<void(v1::SolveRequest&)> spoil;
};

std::ostream& operator<<(std::ostream& out, const BadRequest& bad) { return out << bad.name; }

std::vector<BadRequest> BadRequests() {
  const auto stage = [](auto set) {
    return [set](v1::SolveRequest& request) { set(*request.mutable_chain()->mutable_stages(1)); };
  };
  const auto platform = [](auto set) {
    return [set](v1::SolveRequest& request) { set(*request.mutable_platform()); };
  };
  const auto options = [](auto set) {
    return [set](v1::SolveRequest& request) { set(*request.mutable_options()); };
  };
  return {
      {"NegativeTime", "chain.stages[1].forward_seconds", "is -1; it must be",
       stage([](v1::Stage& s) { s.set_forward_seconds(-1); })},
      {"NaN", "chain.stages[1].backward_seconds", "is nan; it must be",
       stage([](v1::Stage& s) { s.set_backward_seconds(kNaN); })},
      {"Infinity", "chain.stages[1].forward_seconds", "is inf; it must be",
       stage([](v1::Stage& s) { s.set_forward_seconds(kInfinity); })},
      {"NegativeSize", "chain.stages[1].forward_overhead_bytes", "is -7; it must be",
       stage([](v1::Stage& s) { s.set_forward_overhead_bytes(-7); })},
      {"NegativeGradient", "chain.stages[1].gradient_bytes", "is -1; it must be",
       stage([](v1::Stage& s) { s.set_gradient_bytes(-1); })},
      {"SavedLessThanOutput", "chain.stages[1].saved_bytes", "is 9, less than output_bytes 10",
       stage([](v1::Stage& s) { s.set_saved_bytes(9); })},
      {"TooLargeSize", "chain.stages[1].backward_overhead_bytes", "below 2^62",
       stage([](v1::Stage& s) { s.set_backward_overhead_bytes(int64_t{1} << 62); })},
      {"LargestInteger", "chain.stages[1].backward_overhead_bytes", "below 2^62",
       stage([](v1::Stage& s) {
         s.set_backward_overhead_bytes(std::numeric_limits<int64_t>::max());
       })},
      {"SumOfSizesTooLarge", "chain.stages[1].backward_overhead_bytes", "the sum of all sizes",
       stage([](v1::Stage& s) { s.set_backward_overhead_bytes((int64_t{1} << 62) - 1); })},
      {"NegativeInput", "chain.input_bytes", "is -1; it must be",
       [](v1::SolveRequest& r) { r.mutable_chain()->set_input_bytes(-1); }},
      {"BadLoss", "chain.loss.backward_seconds", "is nan; it must be",
       [](v1::SolveRequest& r) { r.mutable_chain()->mutable_loss()->set_backward_seconds(kNaN); }},
      {"NameTwice", "chain.stages[1].name", "'a' is also the name of stages[0]",
       [](v1::SolveRequest& r) {
         r.mutable_chain()->mutable_stages(0)->set_name("a");
         r.mutable_chain()->mutable_stages(1)->set_name("a");
       }},
      {"NoStages", "chain.stages", "is empty",
       [](v1::SolveRequest& r) { r.mutable_chain()->clear_stages(); }},
      {"NoChain", "chain.stages", "is empty", [](v1::SolveRequest& r) { r.clear_chain(); }},
      {"HundredThousandStages", "chain.stages", "has 100000 stages; at most 10000",
       [](v1::SolveRequest& r) { *r.mutable_chain() = ToMessage(EqualChain(100'000)); }},
      {"NoPlatform", "platform.memory_bytes", "is missing",
       [](v1::SolveRequest& r) { r.clear_platform(); }},
      {"NoMemory", "platform.memory_bytes", "is missing",
       platform([](v1::Platform& p) { p.clear_memory_bytes(); })},
      {"NegativeMemory", "platform.memory_bytes", "is -1; it must be",
       platform([](v1::Platform& p) { p.set_memory_bytes(-1); })},
      {"NegativeHostMemory", "platform.host_memory_bytes", "is -1; it must be",
       platform([](v1::Platform& p) { p.set_host_memory_bytes(-1); })},
      {"NegativeBandwidth", "platform.offload_bytes_per_second", "is -1; it must be",
       platform([](v1::Platform& p) { p.set_offload_bytes_per_second(-1); })},
      {"BandwidthNaN", "platform.prefetch_bytes_per_second", "is nan; it must be",
       platform([](v1::Platform& p) { p.set_prefetch_bytes_per_second(kNaN); })},
      {"LatencyInfinity", "platform.transfer_latency_seconds", "is inf; it must be",
       platform([](v1::Platform& p) { p.set_transfer_latency_seconds(kInfinity); })},
      {"UnknownSolver", "solver", "'rotter' is not known; choose one of auto, store_all",
       [](v1::SolveRequest& r) { r.set_solver("rotter"); }},
      {"NegativeSlots", "options.memory_slots", "is -1; it must be",
       options([](v1::SolveOptions& o) { o.set_memory_slots(-1); })},
      {"SegmentsBeyondStages", "options.segments", "is 4; it must be from 1 to the chain's 3",
       options([](v1::SolveOptions& o) { o.set_segments(4); })},
      {"PrecisionNaN", "options.time_precision", "is nan; it must be",
       options([](v1::SolveOptions& o) { o.set_time_precision(kNaN); })},
      {"PrecisionTooCoarse", "options.time_precision", "is 0.6; it must be",
       options([](v1::SolveOptions& o) { o.set_time_precision(0.6); })},
  };
}

class BadRequestToTheService : public Service, public testing::WithParamInterface<BadRequest> {};

TEST_P(BadRequestToTheService, IsRefusedByTheNameOfItsField) {
  const BadRequest& bad = GetParam();
  v1::SolveRequest request = SmallSolveRequest();
  bad.spoil(request);
  v1::SolveResponse response;
  const grpc::Status status = remote_.Solve(request, &response);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << Text(status);
  EXPECT_THAT(status.error_message(),
              AllOf(StartsWith(std::string(bad.field) + ": "), HasSubstr(bad.problem)));
  EXPECT_THAT(status.error_message(), Not(HasSubstr("\n")));
  const std::optional<v1::Violations> violations = ViolationsOf(status);
  ASSERT_TRUE(violations.has_value());
  ASSERT_EQ(violations->violations_size(), 1) << violations->DebugString();
  EXPECT_EQ(violations->violations(0).field(), bad.field);
  EXPECT_THAT(violations->violations(0).problem(), HasSubstr(bad.problem));
  EXPECT_EQ(violations->more(), 0);
}

INSTANTIATE_TEST_SUITE_P(Each, BadRequestToTheService, testing::ValuesIn(BadRequests()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_F(Service, EverythingThatIsWrongIsSaidAtOnce) {
  v1::SolveRequest request = SmallSolveRequest();
  request.mutable_chain()->set_input_bytes(-1);
  request.mutable_chain()->mutable_stages(2)->set_forward_seconds(kNaN);
  request.clear_platform();
  request.set_solver("rotter");
  v1::SolveResponse response;
  const grpc::Status status = remote_.Solve(request, &response);
  const std::optional<v1::Violations> violations = ViolationsOf(status);
  ASSERT_TRUE(violations.has_value()) << Text(status);
  std::vector<std::string> fields;
  for (const auto& violation : violations->violations()) {
    fields.push_back(violation.field());
    EXPECT_THAT(status.error_message(), HasSubstr(violation.field()));
  }
  EXPECT_THAT(fields,
              testing::UnorderedElementsAre("chain.input_bytes", "chain.stages[2].forward_seconds",
                                            "platform.memory_bytes", "solver"));
}

TEST_F(Service, MoreViolationsThanATrailerHoldsAreCounted) {
  v1::SolveRequest request = SmallSolveRequest();
  *request.mutable_chain() = ToMessage(EqualChain(10'000));
  for (v1::Stage& stage : *request.mutable_chain()->mutable_stages()) {
    stage.set_forward_seconds(-1);
  }
  v1::SolveResponse response;
  const grpc::Status status = remote_.Solve(request, &response);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << Text(status);
  EXPECT_THAT(status.error_message(), HasSubstr("more violated fields"));
  const std::optional<v1::Violations> violations = ViolationsOf(status);
  ASSERT_TRUE(violations.has_value());
  EXPECT_GT(violations->violations_size(), 5);
  EXPECT_EQ(violations->violations_size() + violations->more(), 10'000);
}

TEST_F(Service, TheSameIsWrongWithASimulation) {
  v1::SimulateRequest request = SmallSimulation("S1");
  request.mutable_chain()->mutable_stages(0)->set_saved_bytes(1);
  request.mutable_platform()->clear_memory_bytes();
  v1::SimulateResponse response;
  const grpc::Status status = remote_.Simulate(request, &response);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("chain.stages[0].saved_bytes: "),
                                            HasSubstr("platform.memory_bytes: is missing")));
  ASSERT_TRUE(ViolationsOf(status).has_value());
  EXPECT_EQ(ViolationsOf(status)->violations_size(), 2);
}

TEST_F(Service, BytesThatAreNoMessageAreRefused) {
  for (const std::string& bytes : {std::string("\xff\xff\xff\xff\xff"), std::string(100, '\n'),
                                   SmallSolveRequest().SerializeAsString().substr(0, 20)}) {
    EXPECT_FALSE(remote_.SendRaw("Solve", bytes).ok());
  }
  EXPECT_EQ(remote_.SendRaw("NoSuchMethod", "").error_code(), StatusCode::UNIMPLEMENTED);
}

// A status that does not fit the trailers would arrive as nothing at all.
TEST_F(Service, QuotesNoMoreOfTheCallersTextThanAnErrorHolds) {
  v1::SolveRequest request = SmallSolveRequest();
  std::string name;
  for (int i = 0; i < 4000; ++i) name += "é";
  request.set_solver(name);
  request.mutable_chain()->mutable_stages(0)->set_name(name);
  request.mutable_chain()->mutable_stages(1)->set_name(name);
  v1::SolveResponse response;
  const grpc::Status status = remote_.Solve(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << Text(status);
  EXPECT_THAT(status.error_message(), HasSubstr("is not known; choose one of auto"));
  ASSERT_TRUE(ViolationsOf(status).has_value());
  EXPECT_EQ(ViolationsOf(status)->violations_size(), 2);
}

TEST_F(Service, NamesAreAnyText) {
  v1::SolveRequest request = SmallSolveRequest();
  request.mutable_chain()->set_name("öäü \"quoted\"\nsecond line");
  request.mutable_chain()->mutable_stages(0)->set_name(std::string("a\0b", 3));
  v1::SolveResponse response;
  const grpc::Status status = remote_.Solve(request, &response);
  EXPECT_TRUE(status.ok()) << Text(status);
}

TEST_F(Service, ALogLineCarriesTheCallersRequestId) {
  grpc::ClientContext context;
  context.AddMetadata("x-request-id", "job 17, step \"3\"");
  v1::SolveResponse response;
  ASSERT_TRUE(remote_.Solve(SmallSolveRequest(), &response, &context).ok());
  const std::string line =
      server_->WaitForLogLine({"event=call method=Solve", "id=\"job 17, step \\\"3\\\"\""});
  EXPECT_THAT(line, AllOf(StartsWith("time="), HasSubstr("level=info"), HasSubstr("code=OK"),
                          HasSubstr("outcome=OPTIMAL"), HasSubstr("stages=3")))
      << server_->Log();
}

TEST_F(Service, AFailedCallIsLoggedWithItsReason) {
  grpc::ClientContext context;
  context.AddMetadata("x-request-id", "bad-one");
  v1::SolveRequest request = SmallSolveRequest();
  request.set_solver("rotter");
  v1::SolveResponse response;
  EXPECT_FALSE(remote_.Solve(request, &response, &context).ok());
  EXPECT_THAT(server_->WaitForLogLine({"id=bad-one"}),
              AllOf(HasSubstr("code=INVALID_ARGUMENT"), HasSubstr("rotter")));
}

TEST(ServiceLimits, ATooLargeMessageIsRefused) {
  ServerProcess server({"--max-message", "64KiB"});
  const Remote remote(server.address());
  v1::SolveRequest request = SmallSolveRequest();
  request.mutable_chain()->set_name(std::string(100'000, 'x'));
  v1::SolveResponse response;
  const grpc::Status status = remote.Solve(request, &response);
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("65536"));
  EXPECT_TRUE(remote.Answers());
}

TEST(ServiceLimits, ASolveThatNeedsTooMuchMemoryIsRefusedWithWhatWouldFit) {
  ServerProcess server({"--solve-memory", "1MiB"});
  const Remote remote(server.address());
  v1::SolveRequest request = Resnet101(int64_t{1} << 30);
  request.set_solver("rotor");
  v1::SolveResponse response;
  const grpc::Status status = remote.Solve(request, &response);
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED) << Text(status);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("rotor"), HasSubstr("1.00 MiB"),
                                            HasSubstr("memory_slots"), HasSubstr("auto")));
  EXPECT_FALSE(RetryAdviceOf(status).has_value()) << "waiting does not help";

  request.set_solver("auto");
  EXPECT_TRUE(remote.Solve(request, &response).ok());
  EXPECT_TRUE(remote.Answers());
}

TEST(ServiceLimits, LongerChainsAndFinerGridsThanTheServerTakesAreRefused) {
  ServerProcess server({"--max-stages", "38", "--max-slots", "1000"});
  const Remote remote(server.address());
  v1::SolveRequest request = Resnet101(int64_t{1} << 30);
  request.mutable_options()->set_memory_slots(1000);
  v1::SolveResponse response;
  EXPECT_EQ(Text(remote.Solve(request, &response)), "OK");
  request.mutable_options()->set_memory_slots(1001);
  EXPECT_THAT(
      Text(remote.Solve(request, &response)),
      AllOf(StartsWith("INVALID_ARGUMENT: options.memory_slots"), HasSubstr("--max-slots")));
  *request.mutable_chain()->add_stages() = request.chain().stages(0);
  const std::string both = Text(remote.Solve(request, &response));
  EXPECT_THAT(both, AllOf(HasSubstr("chain.stages: has 39 stages"), HasSubstr("--max-stages"),
                          HasSubstr("--max-slots")));
  grpc::ClientContext context;
  const auto stub = v1::Scheduler::NewStub(remote.channel());
  EXPECT_EQ(Text(stub->SolveStream(&context, request)->Finish()), both);
}

// A server with one thread and no queue, busy with a solve of a minute.
class BusyService : public testing::Test {
 protected:
  // Solved again as soon as the thread is free.
  void ExpectFreeAgain() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!remote_.Answers()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << server_.Log();
    }
  }

  ServerProcess server_{{std::begin(kOneAtATime), std::end(kOneAtATime)}};
  const Remote remote_{server_.address()};
};

TEST_F(BusyService, RefusesWhatFindsNoPlaceAndSaysWhenToRetry) {
  const auto running = Occupy(remote_, LongSolveRequest());
  v1::SolveResponse response;
  const grpc::Status status = remote_.Solve(SmallSolveRequest(), &response);
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("the queue is full"));
  const std::optional<v1::RetryAdvice> advice = RetryAdviceOf(status);
  ASSERT_TRUE(advice.has_value());
  EXPECT_GT(advice->retry_after_seconds(), 0);
}

TEST_F(BusyService, StillAnswersWhatNeedsNoSolver) {
  const auto running = Occupy(remote_, LongSolveRequest());
  v1::ListSolversResponse solvers;
  EXPECT_TRUE(remote_.ListSolvers(&solvers).ok());
  v1::SimulateResponse simulated;
  EXPECT_TRUE(remote_.Simulate(SmallSimulation("S1 S2 S3 S4 B4 B3 B2 B1"), &simulated).ok());
  EXPECT_EQ(remote_.Health(), HealthState::SERVING);
  v1::SolveRequest bad = SmallSolveRequest();
  bad.set_solver("rotter");
  v1::SolveResponse response;
  EXPECT_EQ(remote_.Solve(bad, &response).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_FALSE(running->ended());
}

TEST_F(BusyService, StopsWhenTheDeadlinePasses) {
  const auto running = Occupy(remote_, LongSolveRequest(), std::chrono::seconds(5));
  const grpc::Status status = running->Wait();
  EXPECT_EQ(status.error_code(), StatusCode::DEADLINE_EXCEEDED) << Text(status);
  ExpectFreeAgain();
  // Either the server sees first that the time is up, or that the caller, who sees it too, has
  // left.
  const auto ended = [this](const char* code) {
    const std::string log = server_.Log();
    for (const absl::string_view line : absl::StrSplit(log, '\n')) {
      if (absl::StrContains(line, "stages=10000") && absl::StrContains(line, code)) return true;
    }
    return false;
  };
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!ended("code=DEADLINE_EXCEEDED") && !ended("code=CANCELLED")) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << server_.Log();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST_F(BusyService, StopsWhenTheCallerLeaves) {
  const auto running = Occupy(remote_, LongSolveRequest());
  EXPECT_FALSE(running->ended());
  running->Cancel();
  EXPECT_EQ(running->Wait().error_code(), StatusCode::CANCELLED);
  ExpectFreeAgain();
  EXPECT_NE(server_.WaitForLogLine({"method=Solve", "stages=10000", "code=CANCELLED"}), "");
}

}  // namespace
}  // namespace stowage
