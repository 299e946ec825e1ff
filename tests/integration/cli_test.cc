// The command line as scripts use it: exit codes, files, JSON, one clear line for every error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/struct.pb.h"
#include "proto/convert/json.h"
#include "solver/base/quote.h"
#include "stowage/v1/scheduler.pb.h"
#include "stowage/v1/view.pb.h"
#include "tests/integration/html_view.h"
#include "tests/integration/rpc.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr int kError = 1;
constexpr int kInfeasible = 2;

// Three equal stages: storing everything takes 120 bytes and 9 seconds, no schedule less than 60
// bytes.
constexpr const char* kSmallChain = R"({
  "name": "small",
  "input_bytes": 10,
  "stages": [
    {"name": "a", "forward_seconds": 1, "backward_seconds": 2, "output_bytes": 10, "saved_bytes": 30},
    {"name": "b", "forward_seconds": 1, "backward_seconds": 2, "output_bytes": 10, "saved_bytes": 30},
    {"name": "c", "forward_seconds": 1, "backward_seconds": 2, "output_bytes": 10, "saved_bytes": 30}
  ]
})";
constexpr const char* kStoreAll =
    R"({"operations": [{"kind": "FORWARD_SAVE", "stage": 1}, {"kind": "FORWARD_SAVE", "stage": 2},
  {"kind": "FORWARD_SAVE", "stage": 3}, {"kind": "FORWARD_SAVE", "stage": 4},
  {"kind": "BACKWARD", "stage": 4}, {"kind": "BACKWARD", "stage": 3},
  {"kind": "BACKWARD", "stage": 2}, {"kind": "BACKWARD", "stage": 1}]})";

ProgramResult Stowage(std::vector<std::string> arguments, const std::string& input = "") {
  arguments.insert(arguments.begin(), Program("stowage"));
  return RunProgram(arguments, input);
}

// An error: exit code 1, nothing on standard output, one line with all the parts.
MATCHER_P(FailsWith, parts, "") {
  const auto lines = std::count(arg.err.begin(), arg.err.end(), '\n');
  return arg.exit_code == kError && arg.out.empty() && lines == 1 &&
         arg.err.rfind("stowage: ", 0) == 0 &&
         std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
           return arg.err.find(part) != std::string::npos;
         });
}
auto Fails(const std::vector<std::string>& parts) { return FailsWith(parts); }

MATCHER(Succeeds, "") { return arg.exit_code == 0 && arg.err.empty(); }

// Parsed strictly: JSON that the CLI prints is the protobuf mapping, without unknown fields.
template <typename Message>
Message Parsed(const std::string& json) {
  Message message;
  const absl::Status status = FromJson(json, "output", &message);
  EXPECT_TRUE(status.ok()) << status << "\n" << json;
  return message;
}

class Cli : public testing::Test {
 protected:
  // `solve --local` of the small chain, with more arguments.
  ProgramResult SolveSmall(std::vector<std::string> more) const {
    more.insert(more.begin(), {"solve", "--local", "--chain", chain_});
    return Stowage(std::move(more));
  }
  ProgramResult SimulateSmall(const std::string& schedule, std::vector<std::string> more) const {
    more.insert(more.begin(), {"simulate", "--chain", chain_, "--schedule", schedule});
    return Stowage(std::move(more));
  }

  const TempFolder folder_;
  const std::string chain_ = folder_.Write("small.json", kSmallChain);
};

TEST_F(Cli, TheReadmesExampleWorks) {
  ServerProcess server;
  const std::string resnet = ProfilePath("torchvision-resnet101-32-224");
  const ProgramResult solved =
      Stowage({"solve", "--chain", resnet, "--memory", "1GiB", "--server", server.address()});
  EXPECT_THAT(solved, Succeeds());
  EXPECT_THAT(solved.out, AllOf(StartsWith("resnet101"), HasSubstr("OPTIMAL"),
                                HasSubstr("makespan"), HasSubstr("of the budget")));
}

TEST_F(Cli, SolvesTheSameAtAServerAndHere) {
  ServerProcess server;
  const std::string vgg = ProfilePath("pipedream-vgg16-128-224");
  std::vector<v1::SolveResponse> answers;
  for (const std::vector<std::string>& where :
       {std::vector<std::string>{"--server", server.address()},
        std::vector<std::string>{"--local"}}) {
    std::vector<std::string> arguments = {
        "solve", "--chain", vgg, "--memory", "50%", "--time-precision", "0", "--format", "json"};
    arguments.insert(arguments.end(), where.begin(), where.end());
    const ProgramResult result = Stowage(arguments);
    ASSERT_THAT(result, Succeeds());
    answers.push_back(Parsed<v1::SolveResponse>(result.out));
    answers.back().clear_origin();
  }
  EXPECT_GT(answers[0].schedule().operations_size(), 0);
  EXPECT_EQ(answers[0].DebugString(), answers[1].DebugString());
}

TEST_F(Cli, ExportsTheSameAtAServerAndHere) {
  ServerProcess server;
  for (const char* target : {"jax", "torchtitan", "megatron"}) {
    for (const char* memory : {"1%", "110B", "100%"}) {  // of which the first fits no layers
      std::vector<std::string> ask = {"export",   "--for", target,     "--chain", chain_,
                                      "--memory", memory,  "--layers", "1:2"};
      const ProgramResult here = Stowage(ask);
      ask.insert(ask.end(), {"--server", server.address()});
      const ProgramResult there = Stowage(ask);
      EXPECT_EQ(there.out, here.out);
      EXPECT_EQ(there.err, here.err);
      EXPECT_EQ(there.exit_code, here.exit_code);
      EXPECT_EQ(here.exit_code, std::string(memory) == "1%" ? kInfeasible : 0) << here.out;
    }
  }
}

TEST_F(Cli, TheFrontierIsTheSameAtAServerAndHere) {
  ServerProcess server;
  const std::vector<std::string> ask = {"frontier", "--chain",          chain_, "--points",
                                        "5",        "--time-precision", "0"};
  std::vector<std::string> there = ask;
  there.insert(there.end(), {"--server", server.address()});
  std::vector<std::string> here = ask;
  here.emplace_back("--local");
  const ProgramResult remote = Stowage(there);
  const ProgramResult local = Stowage(here);
  EXPECT_EQ(remote.exit_code, 0) << remote.err;
  const auto table = [](const std::string& text) { return text.substr(text.find("budget  ")); };
  EXPECT_EQ(table(remote.out), table(local.out));
  EXPECT_THAT(remote.out, testing::HasSubstr("store all"));
}

TEST_F(Cli, InfeasibleIsExitCodeTwoAndSaysWhatWouldWork) {
  const ProgramResult text = SolveSmall({"--memory", "59"});
  EXPECT_EQ(text.exit_code, kInfeasible);
  EXPECT_EQ(text.err, "");
  EXPECT_THAT(text.out, AllOf(HasSubstr("infeasible: auto has no schedule within 59 B"),
                              HasSubstr("least memory"), HasSubstr("memory floor")));
  const ProgramResult json = SolveSmall({"--memory", "59", "--format", "json"});
  EXPECT_EQ(json.exit_code, kInfeasible);
  const auto answer = Parsed<v1::SolveResponse>(json.out);
  EXPECT_EQ(answer.outcome(), v1::INFEASIBLE);
  const std::string minimum = absl::StrCat(answer.minimum_memory_bytes());
  EXPECT_THAT(text.out, HasSubstr("--memory " + minimum));
  EXPECT_THAT(SolveSmall({"--memory", minimum}), Succeeds());
  EXPECT_EQ(SolveSmall({"--memory", absl::StrCat(answer.minimum_memory_bytes() - 1)}).exit_code,
            kInfeasible);
}

// Its stage has the number L+1, and no name in the profile.
TEST_F(Cli, TheLossIsCalledSo) {
  const std::string chain = folder_.Write(
      "loss.json",
      absl::StrReplaceAll(kSmallChain, {{"\"input_bytes\": 10",
                                         "\"input_bytes\": 10, \"loss\": "
                                         "{\"output_bytes\": 4, \"saved_bytes\": 999}"}}));
  const std::vector<std::string> solve = {"solve", "--local", "--chain", chain, "--memory", "50"};
  EXPECT_THAT(Stowage(solve).out, HasSubstr("which BACKWARD 4 (the loss) needs by itself"));
  std::vector<std::string> json = solve;
  json.insert(json.end(), {"--format", "json"});
  EXPECT_EQ(Parsed<v1::SolveResponse>(Stowage(json).out).memory_floor_operation().stage(), 4);
  EXPECT_THAT(Stowage({"chain", chain}).out, HasSubstr("which BACKWARD 4 (the loss) needs"));
  EXPECT_THAT(Stowage({"chain", chain, "--format", "json"}).out, HasSubstr("\"BACKWARD 4\""));
  const std::string schedule = folder_.Write("store_all.json", kStoreAll);
  EXPECT_THAT(
      Stowage({"simulate", "--chain", chain, "--schedule", schedule, "--memory", "2000"}).out,
      AllOf(HasSubstr("at operations[4] BACKWARD 4 (the loss)\n"),
            HasSubstr("held at the peak, BACKWARD 4 (the loss)\n")));
  EXPECT_THAT(
      Stowage({"simulate", "--chain", chain, "--schedule", schedule, "--memory", "500"}).out,
      HasSubstr("over a limit: operations[3] FORWARD_SAVE 4 (the loss) needs"));
}

TEST_F(Cli, InfeasibleAtAServerIsTheSame) {
  ServerProcess server;
  const ProgramResult result = Stowage({"solve", "--chain", chain_, "--memory", "1", "--server",
                                        server.address(), "--format", "json"});
  EXPECT_EQ(result.exit_code, kInfeasible);
  EXPECT_EQ(Parsed<v1::SolveResponse>(result.out).outcome(), v1::INFEASIBLE);
}

TEST_F(Cli, JsonHasEveryFieldByItsNameInTheProtos) {
  const ProgramResult result = SolveSmall({"--memory", "1000", "--format", "json"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.out, AllOf(HasSubstr("\"memory_bytes\": \"1000\""),  // 64 bits: a string
                                HasSubstr("\"makespan_seconds\": 9"),
                                HasSubstr("\"recompute_seconds\": 0"),  // defaults are printed
                                HasSubstr("\"limit\": \"LIMIT_NONE\""), EndsWith("\n")));
}

TEST_F(Cli, OutputIsTheBareScheduleAndStandardOutputStaysTheSame) {
  const std::string schedule = folder_.Path("schedule.json");
  const ProgramResult plain = SolveSmall({"--memory", "100", "--format", "json"});
  const ProgramResult with_file =
      SolveSmall({"--memory", "100", "--format", "json", "--output", schedule});
  ASSERT_THAT(with_file, Succeeds());
  auto answer = Parsed<v1::SolveResponse>(with_file.out);
  auto expected = Parsed<v1::SolveResponse>(plain.out);
  EXPECT_EQ(Parsed<v1::Schedule>(ReadFile(schedule)).DebugString(),
            answer.schedule().DebugString());
  answer.clear_origin();
  expected.clear_origin();
  EXPECT_EQ(answer.DebugString(), expected.DebugString());
}

TEST_F(Cli, NothingIsWrittenWhereNothingIsFound) {
  const std::string schedule = folder_.Path("schedule.json");
  EXPECT_EQ(SolveSmall({"--memory", "1", "--output", schedule}).exit_code, kInfeasible);
  EXPECT_THROW(ReadFile(schedule), std::runtime_error);
}

TEST_F(Cli, AnOutputThatCannotBeWrittenIsAnError) {
  EXPECT_THAT(SolveSmall({"--memory", "100", "--output", folder_.Path("no/such/folder")}),
              Fails({"--output: ", "no/such/folder"}));
}

TEST_F(Cli, ThePageHoldsTheAnswerAndItsSimulation) {
  const std::string html = folder_.Path("page.html");
  const ProgramResult solved = SolveSmall({"--memory", "100", "--format", "json", "--html", html});
  ASSERT_THAT(solved, Succeeds());
  const v1::View view = ViewIn(ReadFile(html));
  EXPECT_EQ(view.chain().name(), "small");
  EXPECT_EQ(view.most_memory_bytes(), 120);
  ASSERT_EQ(view.schedules_size(), 1);
  const v1::ViewedSchedule& viewed = view.schedules(0);
  EXPECT_EQ(viewed.answer().DebugString(), Parsed<v1::SolveResponse>(solved.out).DebugString());
  const std::string schedule = folder_.Write("schedule.json", solved.out);
  const ProgramResult simulated = SimulateSmall(schedule, {"--format", "json"});
  EXPECT_EQ(viewed.simulation().DebugString(),
            Parsed<v1::SimulateResponse>(simulated.out).DebugString());
  ASSERT_EQ(viewed.details_size(), viewed.simulation().timeline_size());
  for (int i = 0; i < viewed.details_size(); ++i) {
    const v1::OperationDetail& detail = viewed.details(i);
    EXPECT_EQ(detail.output_bytes() + detail.saved_bytes() + detail.gradient_bytes() +
                  detail.overhead_bytes(),
              viewed.simulation().timeline(i).memory_bytes());
  }
}

TEST_F(Cli, ThePageOfAFrontierHasAScheduleForEachBudget) {
  const std::string html = folder_.Path("page.html");
  ASSERT_THAT(
      Stowage({"frontier", "--local", "--chain", chain_, "--budgets", "10,70,120", "--html", html}),
      Succeeds());
  const v1::View view = ViewIn(ReadFile(html));
  ASSERT_EQ(view.frontiers_size(), 1);
  ASSERT_EQ(view.frontiers(0).frontier().points_size(), 3);
  ASSERT_EQ(view.schedules_size(), 2);  // none within 10 bytes
  EXPECT_EQ(view.schedules(0).answer().platform().memory_bytes(), 70);
  EXPECT_EQ(view.schedules(1).answer().platform().memory_bytes(), 120);
}

TEST_F(Cli, ThePageSaysThatNothingWasFound) {
  const std::string html = folder_.Path("page.html");
  EXPECT_EQ(SolveSmall({"--memory", "1", "--html", html}).exit_code, kInfeasible);
  const v1::View view = ViewIn(ReadFile(html));
  ASSERT_EQ(view.schedules_size(), 1);
  EXPECT_EQ(view.schedules(0).answer().outcome(), v1::INFEASIBLE);
  EXPECT_FALSE(view.schedules(0).has_simulation());
}

TEST_F(Cli, APageThatCannotBeWrittenIsAnError) {
  EXPECT_THAT(SolveSmall({"--memory", "100", "--html", folder_.Path("no/such/folder")}),
              Fails({"--html: ", "no/such/folder"}));
}

TEST_F(Cli, SimulateTakesABareScheduleAndAWholeAnswer) {
  const std::string bare = folder_.Path("bare.json");
  const ProgramResult solved =
      SolveSmall({"--memory", "100", "--format", "json", "--output", bare});
  ASSERT_THAT(solved, Succeeds());
  const std::string whole = folder_.Write("whole.json", solved.out);
  const ProgramResult from_bare = SimulateSmall(bare, {"--memory", "100", "--format", "json"});
  const ProgramResult from_whole = SimulateSmall(whole, {"--memory", "100", "--format", "json"});
  ASSERT_THAT(from_bare, Succeeds());
  EXPECT_EQ(from_bare.out, from_whole.out);
  const auto simulated = Parsed<v1::SimulateResponse>(from_bare.out);
  EXPECT_TRUE(simulated.feasible());
  const auto answer = Parsed<v1::SolveResponse>(solved.out);
  EXPECT_EQ(simulated.prediction().DebugString(), answer.prediction().DebugString());
}

TEST_F(Cli, SimulateOfAnInfeasibleAnswerSaysThatItHoldsNoSchedule) {
  const ProgramResult solved = SolveSmall({"--memory", "1", "--format", "json"});
  const std::string answer = folder_.Write("answer.json", solved.out);
  EXPECT_THAT(SimulateSmall(answer, {"--memory", "1"}),
              Fails({answer, "INFEASIBLE", "no schedule"}));
}

TEST_F(Cli, SimulateIsExitCodeTwoWhenAValidScheduleIsOverALimit) {
  ServerProcess server;
  const std::string schedule = folder_.Write("schedule.json", kStoreAll);
  EXPECT_THAT(SimulateSmall(schedule, {"--memory", "1000"}), Succeeds());
  for (const std::vector<std::string>& where :
       {std::vector<std::string>{}, std::vector<std::string>{"--server", server.address()}}) {
    std::vector<std::string> arguments = {"--memory", "75"};
    arguments.insert(arguments.end(), where.begin(), where.end());
    const ProgramResult text = SimulateSmall(schedule, arguments);
    EXPECT_EQ(text.exit_code, kInfeasible);
    EXPECT_THAT(text.out, HasSubstr("over a limit: operations[2] FORWARD_SAVE 3 needs"));
    arguments.insert(arguments.end(), {"--format", "json"});
    const ProgramResult json = SimulateSmall(schedule, arguments);
    EXPECT_EQ(json.exit_code, kInfeasible);
    const auto answer = Parsed<v1::SimulateResponse>(json.out);
    EXPECT_FALSE(answer.feasible());
    EXPECT_EQ(answer.first_over_limit(), 2);
    EXPECT_EQ(answer.timeline_size(), 8);
  }
}

TEST_F(Cli, AnInvalidScheduleIsAnErrorThatBeginsWithItsOperation) {
  ServerProcess server;
  const std::string too_early = folder_.Write(
      "too_early.json", absl::StrReplaceAll(kStoreAll, {{R"("FORWARD_SAVE", "stage": 3)",
                                                         R"("BACKWARD", "stage": 3)"}}));
  const std::string cut_short = folder_.Write(
      "cut_short.json",
      absl::StrReplaceAll(kStoreAll, {{R"(, {"kind": "BACKWARD", "stage": 1})", ""}}));
  for (const std::vector<std::string>& where :
       {std::vector<std::string>{}, std::vector<std::string>{"--server", server.address()}}) {
    std::vector<std::string> arguments = {"--memory", "1000"};
    arguments.insert(arguments.end(), where.begin(), where.end());
    EXPECT_THAT(SimulateSmall(too_early, arguments),
                Fails({"stowage: operations[2] BACKWARD 3: "}));
    EXPECT_THAT(SimulateSmall(cut_short, arguments), Fails({"stowage: operations[7] END: "}));
  }
}

TEST_F(Cli, ABadScheduleFileNamesItsField) {
  struct Case {
    const char* json;
    std::vector<std::string> parts;
  };
  const Case cases[] = {
      {"", {"bad.json: ", "not JSON"}},
      {R"({"operations": [{"kind": "FORWARD_SAVE", "stage": 1})", {"schedule.operations"}},
      {R"({"operations": [{"kind": "FORWARD", "stage": 1}]})",
       {"schedule.operations[0].kind: ", "FORWARD", "FORWARD_SAVE"}},
      {R"({"operations": [{"kind": "FORWARD_SAVE", "sage": 1}]})",
       {"schedule.operations[0].sage: unknown field"}},
      {R"({"operations": [{"kind": "FORWARD_SAVE", "stage": 3000000000}]})",
       {"schedule.operations[0].stage: ", "3000000000"}},
      {R"({"operations": [{"stage": 1}]})", {"schedule.operations[0].kind: ", "FORWARD_SAVE"}},
  };
  for (const Case& bad : cases) {
    const std::string schedule = folder_.Write("bad.json", bad.json);
    EXPECT_THAT(SimulateSmall(schedule, {"--memory", "1000"}), Fails(bad.parts)) << bad.json;
  }
}

TEST_F(Cli, ADashReadsStandardInput) {
  EXPECT_THAT(Stowage({"chain", "-"}, kSmallChain), Succeeds());
  EXPECT_THAT(Stowage({"solve", "--local", "--chain", "-", "--memory", "100"}, kSmallChain),
              Succeeds());
  EXPECT_THAT(
      Stowage({"simulate", "--chain", chain_, "--schedule", "-", "--memory", "1000"}, kStoreAll),
      Succeeds());
  EXPECT_THAT(Stowage({"solve", "--local", "--chain", chain_, "--platform", "-"},
                      R"({"memory_bytes": 100})"),
              Succeeds());
  EXPECT_THAT(Stowage({"solve", "--local", "--chain", "-", "--platform", "-"}, kSmallChain),
              Fails({"--platform", "standard input"}));
  EXPECT_THAT(Stowage({"simulate", "--chain", "-", "--schedule", "-", "--memory", "1"}, "{}"),
              Fails({"--chain", "--schedule"}));
  EXPECT_THAT(Stowage({"chain", "-"}, "{"), Fails({"standard input: chain"}));
}

TEST_F(Cli, FlagsWinOverThePlatformFile) {
  const std::string platform = folder_.Write("platform.json", R"({
    "name": "a card", "memory_bytes": "100", "offload_bytes_per_second": 7,
    "prefetch_bytes_per_second": 8, "transfer_latency_seconds": 0.25, "half_duplex": true,
    "host_memory_bytes": 900})");
  const auto solve = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--platform", platform, "--format", "json"});
    const ProgramResult result = SolveSmall(std::move(more));
    EXPECT_THAT(result, Succeeds());
    return Parsed<v1::SolveResponse>(result.out).platform();
  };
  const v1::Platform from_file = solve({});
  EXPECT_EQ(from_file.name(), "a card");
  EXPECT_EQ(from_file.memory_bytes(), 100);
  EXPECT_EQ(from_file.offload_bytes_per_second(), 7);
  EXPECT_EQ(from_file.prefetch_bytes_per_second(), 8);
  EXPECT_EQ(from_file.transfer_latency_seconds(), 0.25);
  EXPECT_TRUE(from_file.half_duplex());
  EXPECT_EQ(from_file.host_memory_bytes(), 900);

  const v1::Platform overridden =
      solve({"--memory", "1KiB", "--offload-bandwidth", "12GB/s", "--transfer-latency", "10us"});
  EXPECT_EQ(overridden.name(), "a card");
  EXPECT_EQ(overridden.memory_bytes(), 1024);
  EXPECT_EQ(overridden.offload_bytes_per_second(), 12e9);
  EXPECT_EQ(overridden.prefetch_bytes_per_second(), 8);
  EXPECT_DOUBLE_EQ(overridden.transfer_latency_seconds(), 10e-6);
  EXPECT_EQ(solve({"--prefetch-bandwidth", "3"}).prefetch_bytes_per_second(), 3);
  EXPECT_EQ(solve({"--host-memory", "1GB"}).host_memory_bytes(), 1'000'000'000);
}

TEST_F(Cli, MemoryInPercentRunsFromTheLeastToStoringEverything) {
  const auto budget = [this](const char* memory) {
    const ProgramResult result = SolveSmall({"--memory", memory, "--format", "json"});
    return Parsed<v1::SolveResponse>(result.out).platform().memory_bytes();
  };
  const ProgramResult tiny = SolveSmall({"--memory", "0", "--format", "json"});
  const int64_t low = Parsed<v1::SolveResponse>(tiny.out).memory_floor_bytes();
  const ProgramResult all =
      SolveSmall({"--memory", "0", "--solver", "store_all", "--format", "json"});
  const int64_t high = Parsed<v1::SolveResponse>(all.out).minimum_memory_bytes();
  ASSERT_LT(low, high);
  EXPECT_EQ(budget("0%"), low);
  EXPECT_EQ(budget("100%"), high);
  EXPECT_EQ(budget("40%"), low + (high - low) * 4 / 10);
}

TEST_F(Cli, SolversAreTheServersOrItsOwn) {
  ServerProcess server;
  const ProgramResult own = Stowage({"solvers", "--format", "json"});
  const ProgramResult remote =
      Stowage({"solvers", "--format", "json", "--server", server.address()});
  ASSERT_THAT(own, Succeeds());
  EXPECT_EQ(own.out, remote.out);
  EXPECT_GT(Parsed<v1::ListSolversResponse>(own.out).solvers_size(), 2);
  EXPECT_THAT(Stowage({"solvers"}).out, AllOf(HasSubstr("rotor"), HasSubstr("guarantee: ")));
}

TEST_F(Cli, ChainShowsEveryProfile) {
  for (const char* name :
       {"analytic-gpt2medium_flash-4-1024", "pipedream-vgg16-128-224", "preact-resnet1001-8-224",
        "torchvision-densenet121-32-224", "torchvision-resnet101-32-224"}) {
    const ProgramResult text = Stowage({"chain", ProfilePath(name)});
    EXPECT_THAT(text, Succeeds()) << name;
    EXPECT_THAT(text.out, AllOf(HasSubstr("memory floor"), HasSubstr("most memory"),
                                HasSubstr("provenance")));
    const ProgramResult json = Stowage({"chain", "--format", "json", ProfilePath(name)});
    ASSERT_THAT(json, Succeeds());
    const v1::Chain chain = Profile(name);
    const auto summary = Parsed<google::protobuf::Struct>(json.out).fields();
    EXPECT_EQ(summary.at("name").string_value(), chain.name());
    EXPECT_EQ(summary.at("stages").number_value(), chain.stages_size());
    EXPECT_EQ(summary.at("input_bytes").string_value(), absl::StrCat(chain.input_bytes()));
  }
}

// Locally, from a server, and from its cache.
TEST_F(Cli, ASuspiciousProfileIsSolvedWithWarnings) {
  ServerProcess server;
  for (const char* name : {"piper-gnmt-milliseconds", "varuna-bert-async-timer",
                           "varuna-bert-first-batch", "varuna-bert-noisy"}) {
    const std::string chain = ProfilePath(absl::StrCat("suspicious/", name));
    std::vector<std::string> warnings;
    const std::vector<std::vector<std::string>> places = {
        {"--local"}, {"--server", server.address()}, {"--server", server.address()}};
    for (const std::vector<std::string>& where : places) {
      std::vector<std::string> arguments = {"solve",    "--chain",  chain,      "--memory", "60%",
                                            "--solver", "periodic", "--format", "json"};
      arguments.insert(arguments.end(), where.begin(), where.end());
      const ProgramResult result = Stowage(arguments);
      ASSERT_THAT(result, Succeeds()) << result.err;
      const auto answer = Parsed<v1::SolveResponse>(result.out);
      ASSERT_GE(answer.warnings_size(), 1) << name;
      std::string text;
      for (const v1::ChainWarning& warning : answer.warnings()) {
        EXPECT_THAT(warning.field(), StartsWith("chain.stages"));
        absl::StrAppend(&text, "  warning: ", warning.field(), ": ", warning.problem(), "\n");
      }
      warnings.push_back(text);
    }
    EXPECT_EQ(warnings[0], warnings[1]);
    EXPECT_EQ(warnings[0], warnings[2]);
    EXPECT_THAT(Stowage({"chain", chain}).out, HasSubstr(warnings[0]));
    EXPECT_THAT(
        Stowage({"solve", "--local", "--solver", "periodic", "--chain", chain, "--memory", "60%"})
            .out,
        HasSubstr(warnings[0]));
  }
}

TEST_F(Cli, AServerThatIsNotThereIsSaidWithTheRemedy) {
  const TempFolder folder;
  const std::string nowhere = "unix:" + folder.Path("nobody");
  EXPECT_THAT(
      Stowage({"solve", "--chain", chain_, "--memory", "100", "--server", nowhere}),
      Fails({"no answer from a server at " + nowhere, "stowage-server", "--server", "--local"}));
  EXPECT_THAT(Stowage({"solvers", "--server", nowhere}),
              Fails({"no answer from a server at " + nowhere, "stowage-server"}));
  const std::string schedule = folder_.Write("schedule.json", kStoreAll);
  EXPECT_THAT(SimulateSmall(schedule, {"--memory", "1000", "--server", nowhere}),
              Fails({"no answer from a server at " + nowhere, "stowage-server"}));
  // Over TCP: a port whose server has just gone.
  std::string gone;
  {
    ServerProcess server({}, "127.0.0.3:0");
    gone = server.address();
  }
  EXPECT_THAT(Stowage({"solve", "--chain", chain_, "--memory", "100", "--server", gone}),
              Fails({"no answer from a server at " + gone, "--local"}));
}

// Of preact-resnet1001: little more than the least memory, which no schedule that is found at once
// fits into.
constexpr const char* kTight = "2480000000";

TEST_F(Cli, ATimeoutEndsALongSolve) {
  ServerProcess server({"--solve-memory", "8GiB"});
  const ProgramResult result = Stowage({"solve", "--chain", ProfilePath("preact-resnet1001-8-224"),
                                        "--memory", kTight, "--solver", "rotor", "--slots", "20000",
                                        "--timeout", "100ms", "--server", server.address()});
  EXPECT_THAT(result, Fails({"did not answer within"}));
  EXPECT_TRUE(Remote(server.address()).Answers());
}

TEST_F(Cli, ATimeoutEndsALongLocalSolve) {
  const ProgramResult result = Stowage(
      {"solve", "--local", "--chain", ProfilePath("preact-resnet1001-8-224"), "--memory", kTight,
       "--solver", "rotor", "--slots", "20000", "--solve-memory", "8GiB", "--timeout", "100ms"});
  EXPECT_THAT(result, Fails({"no answer within 0.1 s", "--timeout"}));
}

TEST_F(Cli, AServersAddressIsCheckedBeforeItIsAsked) {
  for (const char* address : {"localhost", "localhost:99999", "::1"}) {
    EXPECT_THAT(Stowage({"solvers", "--server", address}),
                Fails({"--server: '" + std::string(address)}));
  }
}

TEST_F(Cli, NamesCannotForgeLinesOrColours) {
  const ProgramResult result =
      RunProgram({Program("stowage"), "chain", "-"},
                 R"({"name": "\u001b[31mnet\nfeasible", "stages": [{"name": "a\nb"}]})");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, testing::StartsWith(" [31mnet feasible\n"));
  EXPECT_THAT(result.out, testing::HasSubstr("a b"));
}

// Bytes of files, paths and flags that are not UTF-8.
TEST_F(Cli, ErrorsAreUtf8WhateverTheInputIs) {
  const std::string binary = folder_.Write("binary.json", "{\"name\": \"\xFF\xC3\"}");
  const std::string bad_name = folder_.Write("name.json", "{\"stages\": [{\"\xE9\": 1}]}");
  const std::string missing = folder_.Path("\xFF.json");
  const std::string latin1 = "r\xE9sum\xE9";
  ServerProcess server;
  const std::vector<std::vector<std::string>> commands = {
      {"chain", binary},
      {"chain", bad_name},
      {"chain", missing},
      {latin1},
      {"chain", chain_, "--" + latin1},
      {"solve", "--local", "--chain", chain_, "--memory", latin1},
      {"solve", "--local", "--chain", chain_, "--memory", "100", "--solver", latin1},
      {"solve", "--server", server.address(), "--chain", chain_, "--memory", "100", "--solver",
       latin1},
      {"solve", "--chain", chain_, "--memory", "100", "--server", latin1},
      {"solve", "--local", "--chain", chain_, "--memory", "100", "--platform", binary},
      {"simulate", "--chain", chain_, "--schedule", binary, "--memory", "100"},
      {"frontier", "--local", "--chain", chain_, "--budgets", latin1},
      {"operator", "log-level", latin1, "--server", server.address()},
      {"operator", "cancel", latin1, "--server", server.address()},
      {"top", "--http", latin1},
  };
  for (const std::vector<std::string>& command : commands) {
    const ProgramResult result = Stowage(command);
    EXPECT_EQ(result.exit_code, kError) << command[0];
    EXPECT_EQ(ValidUtf8(result.err), result.err);
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
  EXPECT_THAT(Stowage({"chain", binary}), Fails({R"(\xff)"}));
  const std::string utf16 = folder_.Write("utf16.json", std::string("\xFF\xFE{\0}\0", 6));
  EXPECT_THAT(Stowage({"chain", utf16}),
              Fails({utf16 + ": chain: is UTF-16; convert it to UTF-8"}));
  const ProgramResult refused = RunProgram({Program("stowage-server"), "--listen", latin1});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_EQ(ValidUtf8(refused.err), refused.err);
}

// Every kind of unsound profile, asked of a server that must answer afterwards. The command line
// checks before it sends; service_test.cc sends the same to the server itself.
struct BadChain {
  const char* name;
  const char* from;  // replaced in the small chain by:
  const char* to;
  std::vector<std::string> parts;  // of the error
};

std::ostream& operator<<(std::ostream& out, const BadChain& bad) { return out << bad.name; }

class BadChainFile : public Cli, public testing::WithParamInterface<BadChain> {};

TEST_P(BadChainFile, IsOneClearLineThatNamesTheField) {
  const BadChain& bad = GetParam();
  const std::string json = absl::StrReplaceAll(kSmallChain, {{bad.from, bad.to}});
  ASSERT_NE(json, kSmallChain);
  const std::string file = folder_.Write("bad.json", json);
  std::vector<std::string> parts = bad.parts;
  parts.push_back(file + ": chain");
  ServerProcess server;
  EXPECT_THAT(Stowage({"solve", "--chain", file, "--memory", "100", "--server", server.address()}),
              Fails(parts));
  EXPECT_THAT(Stowage({"solve", "--chain", file, "--memory", "100", "--local"}), Fails(parts));
  EXPECT_THAT(Stowage({"chain", file}), Fails(parts));
  EXPECT_THAT(
      Stowage({"solve", "--chain", chain_, "--memory", "100", "--server", server.address()}),
      Succeeds());
}

constexpr const char* kStageB = R"("b", "forward_seconds": 1, "backward_seconds": 2)";
INSTANTIATE_TEST_SUITE_P(
    Each, BadChainFile,
    testing::Values(
        BadChain{"Truncated", "\n  ]\n}", "", {"chain.stages", "not JSON", "line 7"}},
        BadChain{"TruncatedInAStage",
                 R"("c", "forward_seconds": 1, "backward_seconds": 2, )"
                 R"("output_bytes": 10, "saved_bytes": 30})"
                 "\n  ]\n}",
                 R"("c", "forw)",
                 {"chain.stages[2]", "not JSON", "line 7"}},
        BadChain{"UnknownField", "input_bytes", "input_byte", {"chain.input_byte: unknown field"}},
        BadChain{"UnknownFieldOfAStage",
                 kStageB,
                 R"("b", "forward_secnds": 1)",
                 {"chain.stages[1].forward_secnds: unknown field"}},
        BadChain{"Negative",
                 kStageB,
                 R"("b", "forward_seconds": -1)",
                 {"chain.stages[1].forward_seconds: is -1; it must be"}},
        BadChain{"NegativeSize",
                 "\"input_bytes\": 10",
                 "\"input_bytes\": -10",
                 {"chain.input_bytes: is -10; it must be"}},
        BadChain{"NanToken",
                 kStageB,
                 R"("b", "forward_seconds": NaN)",
                 {"chain.stages[1].forward_seconds: line 6", "not JSON"}},
        BadChain{"NanString",
                 kStageB,
                 R"("b", "forward_seconds": "NaN")",
                 {"chain.stages[1].forward_seconds: is nan; it must be"}},
        BadChain{"InfinityToken",
                 kStageB,
                 R"("b", "forward_seconds": Infinity)",
                 {"chain.stages[1].forward_seconds: line 6", "not JSON"}},
        BadChain{"InfinityString",
                 kStageB,
                 R"("b", "forward_seconds": "-Infinity")",
                 {"chain.stages[1].forward_seconds: is -inf; it must be"}},
        BadChain{"TooLargeNumber",
                 kStageB,
                 R"("b", "forward_seconds": 1e999)",
                 {"chain.stages[1].forward_seconds: ", "1e999"}},
        BadChain{"SavedLessThanOutput",
                 R"(10, "saved_bytes": 30}
)",
                 R"(10, "saved_bytes": 9}
)",
                 {"chain.stages[2].saved_bytes: is 9, less than output_bytes 10"}},
        BadChain{"NoStages",
                 kSmallChain,
                 R"({"name": "empty", "stages": []})",
                 {"chain.stages: is empty"}},
        BadChain{"NothingAtAll", kSmallChain, "", {"not JSON"}},
        BadChain{"TwoToThe63",
                 "\"input_bytes\": 10",
                 "\"input_bytes\": 9223372036854775808",
                 {"chain.input_bytes: 9223372036854775808 is not", "2^63"}},
        BadChain{"TwoToThe62",
                 "\"input_bytes\": 10",
                 "\"input_bytes\": \"4611686018427387904\"",
                 {"chain.input_bytes: is 4611686018427387904; it must be", "2^62"}},
        BadChain{"Fraction",
                 "\"input_bytes\": 10",
                 "\"input_bytes\": 10.5",
                 {"chain.input_bytes: 10.5 is not a whole number"}},
        BadChain{"Text",
                 "\"input_bytes\": 10",
                 "\"input_bytes\": \"ten\"",
                 {"chain.input_bytes: ", "ten", "is not a whole number"}},
        BadChain{"NameTwice", "\"b\"", "\"a\"", {"chain.stages[1].name: 'a' is also"}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_F(Cli, AHundredThousandStagesAreTooMany) {
  std::string json = R"({"stages": [{"forward_seconds": 1})";
  for (int i = 1; i < 100'000; ++i) json += R"(, {"forward_seconds": 1})";
  const std::string file = folder_.Write("long.json", json + "]}");
  EXPECT_THAT(Stowage({"chain", file}),
              Fails({"chain.stages: has 100000 stages; at most 10000 are allowed"}));
}

TEST_F(Cli, ABadPlatformFileNamesItsField) {
  const auto solve = [this](const char* json) {
    const std::string platform = folder_.Write("platform.json", json);
    return SolveSmall({"--platform", platform});
  };
  EXPECT_THAT(solve("{"), Fails({"platform.json: platform: ", "not JSON"}));
  EXPECT_THAT(solve(R"({"memory": 1})"), Fails({"platform.json: platform.memory: unknown field"}));
  EXPECT_THAT(solve(R"({"memory_bytes": -1})"), Fails({"platform.memory_bytes: is -1"}));
  EXPECT_THAT(solve(R"({"memory_bytes": 1, "offload_bytes_per_second": "NaN"})"),
              Fails({"platform.offload_bytes_per_second: is nan"}));
  EXPECT_THAT(solve("{}"), Fails({"--memory: is missing", "memory_bytes"}));
}

TEST_F(Cli, ABadArgumentIsOneLineThatNamesIt) {
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> parts;
  };
  const Case cases[] = {
      {{}, {"a command is required"}},
      {{"sovle"}, {"sovle", "--help"}},
      {{"solve"}, {"--chain", "required"}},
      {{"solve", "--chain", chain_, "--local"}, {"--memory: is missing", "--memory 4GiB"}},
      {{"solve", "--chain", "/no/such/file", "--memory", "1"}, {"/no/such/file: No such file"}},
      {{"solve", "--chain", chain_, "--memory", "lots"}, {"--memory: 'lots' is not", "4GiB"}},
      {{"solve", "--chain", chain_, "--memory", "-5"}, {"--memory"}},
      {{"solve", "--chain", chain_, "--memory", "x%"}, {"--memory: 'x%' is not", "40%"}},
      {{"solve", "--chain", chain_, "--memory", "nan%"}, {"--memory: 'nan%' is not", "40%"}},
      {{"solve", "--chain", chain_, "--memory", "4611686018427387904"}, {"--memory", "2^62"}},
      {{"solve", "--chain", chain_, "--memory", "1", "--offload-bandwidth", "fast"},
       {"--offload-bandwidth: 'fast'", "12GB/s"}},
      {{"solve", "--chain", chain_, "--memory", "1", "--transfer-latency", "soon"},
       {"--transfer-latency: 'soon'", "10us"}},
      {{"solve", "--chain", chain_, "--memory", "1", "--local", "--solver", "rotter"},
       {"solver: 'rotter' is not known; choose one of auto, store_all"}},
      {{"solve", "--chain", chain_, "--memory", "1", "--local", "--segments", "4"},
       {"--segments: is 4"}},
      {{"solve", "--chain", chain_, "--memory", "1", "--local", "--slots", "-1"},
       {"--slots: is -1"}},
      {{"solve", "--chain", chain_, "--memory", "1", "--local", "--time-precision", "nan"},
       {"precision"}},
      {{"solve", "--chain", chain_, "--memory", "1", "--local", "--solve-memory", "much"},
       {"--solve-memory: 'much'"}},
      {{"solve", "--chain", chain_, "--memory", "1", "--timeout", "0"}, {"--timeout: "}},
      {{"solve", "--chain", chain_, "--memory", "1", "--local", "--server", "x"},
       {"--local", "--server"}},
      {{"solve", "--chain", chain_, "--memory", "1", "--format", "xml"}, {"--format", "xml"}},
      {{"solve", "--chain", chain_, "--memory", "1", "--fromat", "json"}, {"--fromat"}},
      {{"chain"}, {"file", "required"}},
      {{"chain", folder_.Path("")}, {"Is a directory"}},
  };
  for (const Case& bad : cases) {
    EXPECT_THAT(Stowage(bad.arguments), Fails(bad.parts)) << testing::PrintToString(bad.arguments);
  }
}

TEST_F(Cli, AnUnknownSolverAtAServerNamesTheAvailableOnes) {
  ServerProcess server;
  EXPECT_THAT(Stowage({"solve", "--chain", chain_, "--memory", "100", "--solver", "rotter",
                       "--server", server.address()}),
              Fails({"solver: 'rotter' is not known; choose one of auto, store_all"}));
  EXPECT_TRUE(Remote(server.address()).Answers());
}

TEST_F(Cli, ASolveThatNeedsTooMuchMemoryNamesWhatWouldFit) {
  EXPECT_THAT(Stowage({"solve", "--local", "--chain", ProfilePath("torchvision-resnet101-32-224"),
                       "--memory", "1GiB", "--solver", "rotor", "--solve-memory", "1MiB"}),
              Fails({"rotor", "1.00 MiB", "--solve-memory", "--slots"}));
}

TEST_F(Cli, VersionAndHelpGoToStandardOutput) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"version"}, {"--version"}, {"--help"}, {"solve", "--help"}}) {
    const ProgramResult result = Stowage(arguments);
    EXPECT_THAT(result, Succeeds());
    EXPECT_THAT(result.out, Not(IsEmpty()));
  }
  EXPECT_EQ(Stowage({"version"}).out, Stowage({"--version"}).out);
}

TEST_F(Cli, AFullDiskIsAnError) {
  const std::string output = "/dev/full";
  EXPECT_THAT(SolveSmall({"--memory", "100", "--output", output}), Fails({"--output: ", output}));
}

}  // namespace
}  // namespace stowage
