// Where a job fits, asked over the wire and by the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "proto/convert/schedule_message.h"
#include "solver/bounds/memory_range.h"
#include "solver/simulator/simulator.h"
#include "tests/integration/html_view.h"
#include "tests/integration/rpc.h"
#include "tests/support/chains.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kWorkspaceBytes = 200 << 20;
constexpr int64_t kGibibyte = 1 << 30;
// resnet101's 44.5 million parameters in single precision.
constexpr int64_t kWeightBytes = 4 * int64_t{44'549'160};

void AddComponent(v1::Job* job, const char* name, int64_t bytes,
                  v1::Component::Phase phase = v1::Component::STEP) {
  v1::Component& component = *job->add_components();
  component.set_name(name);
  component.set_bytes(bytes);
  component.set_phase(phase);
}

// resnet101 with Adam, whose layers take 3.8 GiB when all are kept.
v1::Job Resnet101() {
  v1::Job job;
  *job.mutable_chain() = Profile("torchvision-resnet101-32-224");
  AddComponent(&job, "weights", kWeightBytes);
  AddComponent(&job, "gradients", kWeightBytes);
  AddComponent(&job, "Adam", 2 * kWeightBytes);
  AddComponent(&job, "workspaces", kWorkspaceBytes, v1::Component::LAYERS);
  AddComponent(&job, "copies", kWeightBytes, v1::Component::UPDATE);
  return job;
}

v1::AdmitRequest AskFor(const std::vector<int64_t>& memory) {
  v1::AdmitRequest request;
  *request.mutable_job() = Resnet101();
  for (const int64_t bytes : memory) {
    request.add_devices()->mutable_platform()->set_memory_bytes(bytes);
  }
  return request;
}

class Admit : public testing::Test {
 protected:
  grpc::Status Ask(const v1::AdmitRequest& request, v1::AdmitResponse* response,
                   std::chrono::milliseconds timeout = kPatience) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    return stub_->Admit(&context, request, response);
  }

  ServerProcess server_;
  const Remote remote_{server_.address()};
  const std::unique_ptr<v1::Scheduler::Stub> stub_ = v1::Scheduler::NewStub(remote_.channel());
};

TEST_F(Admit, SaysOfEachDeviceWhetherTheJobFitsAndWithWhichPlan) {
  v1::AdmitResponse response;
  ASSERT_TRUE(Ask(AskFor({16 * kGibibyte, 3 * kGibibyte, kGibibyte}), &response).ok());
  ASSERT_EQ(response.verdicts_size(), 3);
  const Chain chain = FromMessage(Resnet101().chain());
  const int64_t beside = 4 * kWeightBytes + kWorkspaceBytes;

  const v1::Verdict& fits = response.verdicts(0);
  EXPECT_EQ(fits.fit(), v1::Verdict::FITS);
  EXPECT_EQ(fits.peak_bytes(), beside + StoreAllPeakBytes(chain));
  EXPECT_FALSE(fits.has_plan());

  const v1::Verdict& with_plan = response.verdicts(1);
  EXPECT_EQ(with_plan.fit(), v1::Verdict::FITS_WITH_PLAN);
  EXPECT_EQ(with_plan.plan().platform().memory_bytes(), 3 * kGibibyte - beside);
  std::vector<FieldViolation> violations;
  const Schedule schedule = FromMessage(with_plan.plan().schedule(), &violations);
  const absl::StatusOr<Simulation> judged =
      Simulate(chain, Memory(3 * kGibibyte - beside), schedule);
  ASSERT_TRUE(judged.ok()) << judged.status();
  EXPECT_TRUE(judged->feasible());
  EXPECT_EQ(with_plan.peak_bytes(), beside + judged->prediction.peak_memory_bytes);

  const v1::Verdict& none = response.verdicts(2);
  EXPECT_EQ(none.fit(), v1::Verdict::DOES_NOT_FIT);
  ASSERT_TRUE(none.has_minimum_memory_bytes());
  v1::AdmitResponse least;
  ASSERT_TRUE(
      Ask(AskFor({none.minimum_memory_bytes(), none.minimum_memory_bytes() - 1}), &least).ok());
  EXPECT_EQ(least.verdicts(0).fit(), v1::Verdict::FITS_WITH_PLAN);
  EXPECT_EQ(least.verdicts(1).fit(), v1::Verdict::DOES_NOT_FIT);
}

TEST_F(Admit, SharesItsPlansWithSolve) {
  v1::AdmitResponse response;
  ASSERT_TRUE(Ask(AskFor({3 * kGibibyte}), &response).ok());
  const v1::SolveResponse& plan = response.verdicts(0).plan();
  v1::SolveRequest request;
  *request.mutable_chain() = Resnet101().chain();
  *request.mutable_platform() = plan.platform();
  v1::SolveResponse solved;
  ASSERT_TRUE(remote_.Solve(request, &solved).ok());
  EXPECT_EQ(solved.origin().source(), v1::Origin::MEMORY_CACHE);
  EXPECT_EQ(solved.schedule().SerializeAsString(), plan.schedule().SerializeAsString());
}

TEST_F(Admit, AHostileJobGetsOneClearErrorAndCostsNothing) {
  v1::AdmitRequest request = AskFor({kGibibyte});
  request.mutable_job()->mutable_components(0)->set_bytes(std::numeric_limits<int64_t>::max());
  request.mutable_job()->mutable_components(1)->set_phase(static_cast<v1::Component::Phase>(9));
  request.mutable_devices(0)->set_price(std::numeric_limits<double>::quiet_NaN());
  request.add_devices();
  request.mutable_job()->mutable_chain()->mutable_stages(3)->set_forward_seconds(
      std::numeric_limits<double>::quiet_NaN());
  v1::AdmitResponse response;
  grpc::Status status = Ask(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("job.components[0].bytes"), HasSubstr("job.components[1].phase"),
                    HasSubstr("devices[0].price"),
                    HasSubstr("devices[1].platform.memory_bytes: is missing"),
                    HasSubstr("job.chain.stages[3].forward_seconds")));
  ASSERT_TRUE(ViolationsOf(status).has_value());

  request = AskFor({});
  for (int i = 0; i < 100'000; ++i) request.add_devices();  // each has a field that is missing
  for (int i = 0; i < 10'000; ++i) AddComponent(request.mutable_job(), "", 1);
  status = Ask(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("job.components: has 10005 entries; at most 100"),
                    HasSubstr("devices: has 100000 entries; must be 1 to 32")));
  EXPECT_LT(status.error_message().size(), 300);
  EXPECT_TRUE(remote_.Answers()) << server_.Log();
}

TEST_F(Admit, EachHostileFieldGetsOneErrorThatNamesIt) {
  const std::string long_name(10'000'000, 'x');
  struct Case {
    const char* error;
    std::function<void(v1::AdmitRequest&)> change;
  };
  const Case cases[] = {
      {"job.components: has 10005 entries",
       [](v1::AdmitRequest& request) {
         for (int i = 0; i < 10'000; ++i) AddComponent(request.mutable_job(), "", 1);
       }},
      {"job.components[1].bytes: is 4611686018427387904",
       [](v1::AdmitRequest& request) {
         request.mutable_job()->mutable_components(1)->set_bytes(int64_t{1} << 62);
       }},
      {"job.chain.stages[3].forward_seconds: is nan",
       [](v1::AdmitRequest& request) {
         request.mutable_job()->mutable_chain()->mutable_stages(3)->set_forward_seconds(
             std::numeric_limits<double>::quiet_NaN());
       }},
      {"job.components[0].name: has 10000000 bytes",
       [&](v1::AdmitRequest& request) {
         request.mutable_job()->mutable_components(0)->set_name(long_name);
       }},
      {"job.chain.stages[2].name: has 10000000 bytes",
       [&](v1::AdmitRequest& request) {
         request.mutable_job()->mutable_chain()->mutable_stages(2)->set_name(long_name);
       }},
      {"devices[0].platform.name: has 10000000 bytes",
       [&](v1::AdmitRequest& request) {
         request.mutable_devices(0)->mutable_platform()->set_name(long_name);
       }},
  };
  for (const Case& hostile : cases) {
    v1::AdmitRequest request = AskFor({3 * kGibibyte});
    hostile.change(request);
    v1::AdmitResponse response;
    const grpc::Status status = Ask(request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), testing::StartsWith(hostile.error));
    EXPECT_LT(status.error_message().size(), 200U);
    const auto violations = ViolationsOf(status);
    ASSERT_TRUE(violations.has_value()) << hostile.error;
    EXPECT_EQ(violations->violations_size(), 1) << status.error_message();
  }
  EXPECT_TRUE(remote_.Answers()) << server_.Log();
}

TEST_F(Admit, TheCommandLineExitsAsTheJobFits) {
  const TempFolder files;
  const std::string job = files.Write("job.json", ToJson(Resnet101()));
  const auto run = [&](std::vector<std::string> flags, const std::vector<std::string>& where) {
    std::vector<std::string> argv{Program("stowage"), "admit", "--job", job};
    argv.insert(argv.end(), flags.begin(), flags.end());
    argv.insert(argv.end(), where.begin(), where.end());
    return RunProgram(argv);
  };
  for (const std::vector<std::string>& where :
       {std::vector<std::string>{"--server", server_.address()}, {"--local"}}) {
    SCOPED_TRACE(where[0]);
    EXPECT_EQ(run({"--memory", "16GiB"}, where).exit_code, 0);
    EXPECT_EQ(run({"--memory", "1GiB"}, where).exit_code, 2);
    EXPECT_EQ(run({"--memory", "1GiB,x"}, where).exit_code, 1);
    // The cheapest that it fits comes first, and takes a plan, which is written.
    const std::string devices = files.Write(
        "devices.json",
        R"({"devices": [{"platform": {"name": "large", "memory_bytes": 17179869184}, "price": 3},
                        {"platform": {"name": "small", "memory_bytes": 3221225472}, "price": 1}]})");
    const std::string plan = files.Path("plan.json");
    const ProgramResult result = run({"--devices", devices, "--output", plan}, where);
    EXPECT_EQ(result.exit_code, 3) << result;
    EXPECT_THAT(result.out, testing::ContainsRegex("small .*fits with a plan.*\nlarge .*fits: "));
    const ProgramResult simulated =
        RunProgram({Program("stowage"), "simulate", "--chain",
                    ProfilePath("torchvision-resnet101-32-224"), "--schedule", plan, "--memory",
                    absl::StrCat(3 * kGibibyte - 4 * kWeightBytes - kWorkspaceBytes)});
    EXPECT_EQ(simulated.exit_code, 0) << simulated;
  }
}

// Of a job in two batches, the second of which has a stage of a pipeline and sharded weights.
TEST(AdmitPage, HasTheMemoryOfEachJobByPartsAndThePlans) {
  const TempFolder files;
  const std::string small = files.Write("batch-32.json", ToJson(Resnet101()));
  v1::Job piped = Resnet101();
  piped.set_in_flight(2);
  piped.mutable_components(0)->set_shards(3);
  const std::string large = files.Write("batch-64.json", ToJson(piped));
  const std::string html = files.Path("page.html");
  const ProgramResult result =
      RunProgram({Program("stowage"), "admit", "--local", "--job", small, "--job", large,
                  "--memory", "16GiB,4GiB,1GiB", "--html", html});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.out, AllOf(HasSubstr("batch-32.json:\n"), HasSubstr("batch-64.json:\n")));
  const v1::View view = ViewIn(ReadFile(html));
  ASSERT_EQ(view.jobs_size(), 2);
  EXPECT_EQ(view.jobs(0).name(), "batch-32");
  for (const v1::ViewedJob& job : view.jobs()) {
    ASSERT_EQ(job.verdicts_size(), 3);
    for (const v1::ViewedVerdict& viewed : job.verdicts()) {
      int64_t bytes = 0;
      for (const v1::Component& part : viewed.parts()) bytes += part.bytes();
      EXPECT_EQ(bytes, viewed.verdict().peak_bytes());
      EXPECT_GT(viewed.step_seconds(), 0);
      EXPECT_EQ(viewed.has_plan(), viewed.verdict().fit() == v1::Verdict::FITS_WITH_PLAN);
    }
  }
  const v1::ViewedVerdict& planned = view.jobs(1).verdicts(1);
  EXPECT_EQ(planned.verdict().fit(), v1::Verdict::FITS_WITH_PLAN);
  EXPECT_EQ(planned.device().platform().memory_bytes(), 4 * kGibibyte);
  EXPECT_EQ(planned.parts(0).bytes(), kWeightBytes / 3);
  EXPECT_EQ(planned.parts(planned.parts_size() - 1).name(), "layers");
  ASSERT_EQ(planned.plan().schedules_size(), 1);
  EXPECT_EQ(planned.plan().chain().name(), Resnet101().chain().name());
  EXPECT_GT(planned.plan().schedules(0).simulation().timeline_size(), 0);
}

TEST(AdmitPage, TheExitCodeIsThatOfTheWorstJob) {
  const TempFolder files;
  v1::Job piped = Resnet101();
  piped.set_in_flight(4);
  const std::string small = files.Write("small.json", ToJson(Resnet101()));
  const std::string large = files.Write("large.json", ToJson(piped));
  const auto exit_code = [&](const std::string& memory, std::vector<std::string> flags = {}) {
    std::vector<std::string> argv{
        Program("stowage"), "admit", "--local", "--job", small, "--job", large, "--memory", memory};
    argv.insert(argv.end(), flags.begin(), flags.end());
    return RunProgram(argv).exit_code;
  };
  EXPECT_EQ(exit_code("64GiB"), 0);
  EXPECT_EQ(exit_code("12GiB"), 3);
  EXPECT_EQ(exit_code("2GiB"), 2);
  EXPECT_EQ(exit_code("64GiB", {"--format", "json"}), 1);
  EXPECT_EQ(exit_code("64GiB", {"--output", files.Path("plan.json")}), 1);
}

}  // namespace
}  // namespace stowage
