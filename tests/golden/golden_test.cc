// Compares the programs' output with reviewed files: <name>.txt beside this file, one for each
// case, with a command line and all that it prints. Inputs are the *.json files beside them. Also
// covers the screen of `stowage top` for a server's status, top_status.json, and a server's
// /metrics.
//   stowage_golden_tests --update    rewrites the files; review the diff
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <ostream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/top/screen.h"
#include "client/cli/top/top_json.h"
#include "client/cli/top/top_text.h"
#include "proto/convert/json.h"
#include "proto/service/execution_report.h"
#include "proto/service/origin.h"
#include "server/events/rejection.h"
#include "server/observe/gauges.h"
#include "server/observe/metrics.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

bool update = false;  // set by main()

struct Case {
  const char* name;     // of the file, without .txt
  const char* command;  // split at spaces; the first word is the program
};
std::ostream& operator<<(std::ostream& out, const Case& golden) { return out << golden.name; }

constexpr Case kCases[] = {
    // Help and lists.
    {"help", "stowage --help"},
    {"help_solve", "stowage solve --help"},
    {"help_frontier", "stowage frontier --help"},
    {"help_compare", "stowage compare --help"},
    {"help_export", "stowage export --help"},
    {"help_load", "stowage load --help"},
    {"help_top", "stowage top --help"},
    {"help_admit", "stowage admit --help"},
    {"help_simulate", "stowage simulate --help"},
    {"help_view", "stowage view --help"},
    {"help_solvers", "stowage solvers --help"},
    {"help_chain", "stowage chain --help"},
    {"help_operator", "stowage operator --help"},
    {"help_operator_solves", "stowage operator solves --help"},
    {"help_version", "stowage version --help"},
    {"help_server", "stowage-server --help"},
    {"solvers", "stowage solvers"},
    {"solvers_json", "stowage solvers --format json"},

    // Profiles.
    {"chain", "stowage chain tiny.json"},
    {"chain_json", "stowage chain tiny.json --format json"},
    {"chain_warnings", "stowage chain ../data/suspicious/varuna-bert-async-timer.json"},
    {"chain_warnings_json",
     "stowage chain ../data/suspicious/varuna-bert-noisy.json --format json"},
    {"chain_modes", "stowage chain modes.json"},
    {"chain_modes_json", "stowage chain modes.json --format json"},

    // Solves with less and less memory.
    {"solve_store_all", "stowage solve --local --chain tiny.json --memory 1MiB"},
    {"solve", "stowage solve --local --chain tiny.json --memory 140KiB --solver rotor"},
    {"solve_json",
     "stowage solve --local --chain tiny.json --memory 140KiB --solver rotor --format json"},
    {"solve_modes", "stowage solve --local --chain modes.json --memory 60%"},
    {"solve_modes_json",
     "stowage solve --local --solver mixed_mode --chain modes.json --memory 60% --format json"},
    {"solve_percent", "stowage solve --local --chain tiny.json --memory 40%"},
    {"solve_warnings",
     "stowage solve --local --solver rotor --chain ../data/suspicious/varuna-bert-first-batch.json "
     "--memory 30%"},

    // Exports, by each target.
    {"export_list", "stowage export --list"},
    {"export_list_json", "stowage export --list --format json"},
    {"export_pytorch", "stowage export --for pytorch --chain tiny.json --memory 140KiB"},
    {"export_jax", "stowage export --for jax --chain tiny.json --memory 140KiB"},
    {"export_huggingface",
     "stowage export --for huggingface --chain tiny.json --memory 140KiB --layers 2:3"},
    {"export_torchtitan",
     "stowage export --for torchtitan --chain tiny.json --memory 140KiB --layers 2:3"},
    {"export_megatron",
     "stowage export --for megatron --chain tiny.json --memory 160KiB --layers 1:3"},
    {"export_deepspeed", "stowage export --for deepspeed --chain tiny.json --memory 200KiB"},
    {"export_json",
     "stowage export --for megatron --chain tiny.json --memory 160KiB --layers 1:3 --format json"},
    {"export_ways_pytorch", "stowage export --for pytorch --chain gpt2_ways.json --memory 40%"},
    {"export_ways_torchtitan",
     "stowage export --for torchtitan --chain gpt2_ways.json --memory 40% --layers h.{n}"},
    {"compare_ways", "stowage compare --for pytorch --chain gpt2_ways.json --memory 50%"},
    {"error_compare_way",
     "stowage simulate --chain gpt2_ways.json --as pytorch:way:mm --memory 50%"},
    {"compare", "stowage compare --for megatron --chain tiny.json --memory 160KiB --layers 1:3"},
    {"compare_rows",
     "stowage compare --for megatron --chain tiny.json --memory 160KiB --layers 1:3 --rows 2"},
    {"compare_json",
     "stowage compare --for torchtitan --chain tiny.json --memory 140KiB --format json"},
    {"compare_infeasible", "stowage compare --for jax --chain tiny.json --memory 10KiB"},
    {"export_infeasible",
     "stowage export --for megatron --chain tiny.json --memory 121KiB --layers 1:3"},
    {"export_infeasible_json",
     "stowage export --for megatron --chain tiny.json --memory 121KiB --format json"},

    // Frontiers.
    {"frontier", "stowage frontier --local --chain tiny.json --points 6"},
    {"frontier_json",
     "stowage frontier --local --chain tiny.json --solver rotor --budgets 100KiB,50% "
     "--format json"},

    // Infeasible budgets.
    {"solve_infeasible", "stowage solve --local --chain tiny.json --memory 100KiB"},
    {"solve_infeasible_json",
     "stowage solve --local --chain tiny.json --memory 100KiB --format json"},
    {"solve_infeasible_warnings_json",
     "stowage solve --local --chain ../data/suspicious/piper-gnmt-milliseconds.json --solver rotor "
     "--memory 1MiB --format json"},

    // Simulations: a feasible schedule with transfers,
    {"simulate",
     "stowage simulate --chain tiny.json --schedule offload.json --memory 200KiB "
     "--offload-bandwidth 4MB/s --transfer-latency 10us"},
    {"simulate_json",
     "stowage simulate --chain tiny.json --schedule offload.json --memory 200KiB "
     "--offload-bandwidth 4MB/s --transfer-latency 10us --format json"},
    // over the limit of the device or of the host,
    {"simulate_over_limit",
     "stowage simulate --chain tiny.json --schedule offload.json --memory 150KiB "
     "--offload-bandwidth 4MB/s"},
    {"simulate_over_host_limit",
     "stowage simulate --chain tiny.json --schedule offload.json --memory 200KiB "
     "--offload-bandwidth 4MB/s --host-memory 32KiB"},
    // impossible on the platform, and invalid.
    {"simulate_no_link",
     "stowage simulate --chain tiny.json --schedule offload.json --memory 200KiB"},
    {"simulate_invalid",
     "stowage simulate --chain tiny.json --schedule invalid_schedule.json --memory 200KiB "
     "--offload-bandwidth 4MB/s"},

    // The cost of a framework's setting.
    {"simulate_setting",
     "stowage simulate --chain tiny.json --as megatron:uniform:2 --layers 1:3 --memory 200KiB"},
    {"error_simulate_setting",
     "stowage simulate --chain tiny.json --as pytorch:uniform:2 --memory 200KiB"},
    {"simulate_as_list",
     "stowage simulate --chain tiny.json --as torchtitan:0,2 --layers 1:3 --memory 200KiB"},
    {"error_simulate_list",
     "stowage simulate --chain tiny.json --as torchtitan:0,3 --layers 1:3 --memory 200KiB"},
    {"error_simulate_not_possible",
     "stowage simulate --chain tiny.json --as megatron:uniform:2 --memory 200KiB"},
    {"error_simulate_partial_layers",
     "stowage simulate --chain tiny.json --as deepspeed:all --layers 1:3 --memory 200KiB"},
    {"error_simulate_nothing", "stowage simulate --chain tiny.json --memory 200KiB"},

    // Errors.
    {"error_no_command", "stowage"},
    {"error_unknown_command", "stowage sovle"},
    {"error_unknown_flag", "stowage solve --chain tiny.json --memroy 1GiB"},
    {"error_no_memory", "stowage solve --local --chain tiny.json"},
    {"error_bad_memory", "stowage solve --local --chain tiny.json --memory 4Gb"},
    {"error_bad_budgets", "stowage frontier --local --chain tiny.json --budgets 1MiB,half"},
    {"error_bad_points", "stowage frontier --local --chain tiny.json --points 1"},
    {"frontier_infeasible", "stowage frontier --local --chain tiny.json --budgets 1KiB,2KiB"},
    {"error_export_no_target", "stowage export --chain tiny.json --memory 140KiB"},
    {"error_export_target", "stowage export --for keras --chain tiny.json --memory 140KiB"},
    {"error_export_no_chain", "stowage export --for jax --memory 140KiB"},
    {"error_export_layers",
     "stowage export --for jax --chain tiny.json --memory 140KiB --layers 0:3"},
    {"error_export_pattern",
     "stowage export --for jax --chain tiny.json --memory 140KiB --layers blocks.{n}"},
    {"error_export_partial_layers",
     "stowage export --for deepspeed --chain tiny.json --memory 160KiB --layers 1:3"},
    {"error_bad_bandwidth",
     "stowage solve --local --chain tiny.json --memory 1MiB --offload-bandwidth 12GBps"},
    {"error_no_file", "stowage chain no_such_file.json"},
    {"error_truncated", "stowage chain truncated.json"},
    {"error_misspelt", "stowage chain misspelt.json"},
    {"error_unsound", "stowage chain unsound.json"},
    {"error_unknown_solver",
     "stowage solve --local --chain tiny.json --memory 1MiB --solver rotter"},
    {"error_unknown_format", "stowage chain tiny.json --format yaml"},
    {"error_no_server",
     "stowage solve --chain tiny.json --memory 1MiB --server unix:/no/such/socket"},
    {"error_top_no_server", "stowage top --http 127.0.0.1:1"},
    {"error_top_address", "stowage top --http unix:/no/such/socket"},
    {"error_top_interval", "stowage top --interval 1ms"},
    {"error_top_once_and_count", "stowage top --once --count 3"},
    {"error_operator_no_action", "stowage operator"},
    {"error_operator_level", "stowage operator log-level loud"},
    {"error_operator_no_server", "stowage operator solves --server unix:/no/such/socket"},
    {"error_server_flag", "stowage-server --threads none"},
    {"error_server_size", "stowage-server --solve-memory lots"},
};

// Replaces what differs between runs.
std::string WithoutTimings(const std::string& text) {
  static const std::regex solved("solved in [0-9.]+ (ns|us|ms|s)");
  static const std::regex seconds("\"solve_seconds\": [-+.e0-9]+");
  static const std::regex log_time("time=[-:+.T0-9]+ ");
  std::string stable = std::regex_replace(text, solved, "solved in TIME");
  stable = std::regex_replace(stable, seconds, "\"solve_seconds\": TIME");
  return std::regex_replace(stable, log_time, "time=TIME ");
}

// The command, its output and its exit code.
std::string Transcript(const Case& golden) {
  std::vector<std::string> argv = absl::StrSplit(golden.command, ' ');
  argv[0] = Program(argv[0]);
  const ProgramResult result = RunProgram(argv);
  std::string text = absl::StrCat("$ ", golden.command, "\n", result.out);
  if (!result.err.empty()) absl::StrAppend(&text, "--- standard error\n", result.err);
  absl::StrAppend(&text, "--- exit code ", result.exit_code, "\n");
  return WithoutTimings(text);
}

std::string FileOf(const char* name) { return absl::StrCat(name, ".txt"); }

void ExpectAsReviewed(const std::string& file, const std::string& actual) {
  if (update) WriteFile(file, actual);
  ASSERT_TRUE(std::filesystem::exists(file))
      << "run stowage_golden_tests --update and review " << file;
  EXPECT_EQ(ReadFile(file), actual);
}

class Golden : public testing::TestWithParam<Case> {};

TEST_P(Golden, IsAsReviewed) { ExpectAsReviewed(FileOf(GetParam().name), Transcript(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Each, Golden, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

struct Drawing {
  const char* name;  // of the file, without .txt
  ScreenSize size;
};
std::ostream& operator<<(std::ostream& out, const Drawing& drawing) { return out << drawing.name; }

constexpr Drawing kDrawings[] = {{"top_screen", {80, 40}},
                                 {"top_screen_low", {80, 24}},
                                 {"top_screen_small", {50, 10}},
                                 {"top_screen_wide", {132, 40}}};
constexpr const char* kTopJson = "top_json";

TopView BusyServer() {
  TopView view;
  view.address = "127.0.0.1:50052";
  view.time = "2026-11-22 12:53:20";
  view.unix_seconds = 1'795'352'000;
  const absl::Status read = FromJson(ReadFile("top_status.json"), "status", &view.status);
  EXPECT_TRUE(read.ok()) << read;
  return view;
}

class GoldenDrawing : public testing::TestWithParam<Drawing> {};

TEST_P(GoldenDrawing, IsAsReviewed) {
  const ScreenSize size = GetParam().size;
  const std::string text = PlainText(Fit(DrawTop(BusyServer(), size.columns), size));
  ExpectAsReviewed(FileOf(GetParam().name), text);
}

INSTANTIATE_TEST_SUITE_P(Each, GoldenDrawing, testing::ValuesIn(kDrawings),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(GoldenTopJson, IsAsReviewed) { ExpectAsReviewed(FileOf(kTopJson), TopJson(BusyServer())); }

constexpr const char* kMetrics = "metrics";

CallRecord Answered(Origin::Source source, double seconds) {
  AnswerRecord answer;
  answer.solver = "rotor";
  answer.outcome = Outcome::kFeasible;
  answer.origin.source = source;
  answer.origin.queue_seconds = 0.002;
  answer.origin.solve_seconds = 1.5;
  answer.overhead = 0.03;
  answer.gap = 0.004;
  CallRecord call;
  call.method = "Solve";
  call.client = "trainer";
  call.seconds = seconds;
  call.solver = "auto";
  call.answer = std::make_shared<const AnswerRecord>(answer);
  return call;
}

// Every kind of event once or twice.
void Happen(Metrics& metrics) {
  for (const char* method : {"Solve", "Solve", "Solve", "SolveStream"}) metrics.CallBegan(method);
  metrics.CallEnded(Answered(Origin::Source::kSolved, 1.6));
  metrics.CallEnded(Answered(Origin::Source::kMemoryCache, 0.0003));
  CallRecord refused;
  refused.method = "SolveStream";
  refused.client = "vision";
  refused.status = Rejected("queue_full", "the queue is full", 1);
  refused.seconds = 0.0004;
  metrics.CallEnded(refused);
  ExecutionReport report;
  report.predicted_step_seconds = 1;
  report.measured_step_seconds = 1.25;
  report.predicted_peak_bytes = 1000;
  report.measured_peak_bytes = 1010;
  metrics.ExecutionReported(report, {});
  metrics.OperatorActed({.action = "drain"});
  metrics.StoreFailed(absl::UnavailableError("the disk is full"));
  metrics.CredentialsReplaced("tokens", absl::InvalidArgumentError("line 1: no token"));
  metrics.ConnectionAccepted("ipv4:192.0.2.7:4711");
  metrics.ConnectionRefused({.reason = kTooOften, .peer = "ipv4:192.0.2.7:4711"});
  metrics.ConnectionCutOff({.reason = kCutResets, .peer = "ipv4:192.0.2.7:4711"});
  metrics.HandshakeFailed({.reason = kHandshakeClosed, .message = "closed"});
  metrics.ReaderRefused({.message = "authorization: is missing", .peer = "ipv4:192.0.2.7:4711"});
}

Gauges BusyGauges() {
  Gauges gauges;
  gauges.engine = {
      .solves = {.waiting = 3, .running = 1, .running_bytes = 600'000'000},
      .running = {{.thread = 1, .solver = "auto", .stages = 339, .seconds = 3.5, .fraction = 0.25}},
      .requests = 4,
      .threads = 2,
      .queue_length = 256};
  gauges.memory = {.entries = 50, .bytes = 300'000, .evictions = 7};
  gauges.responses = {.entries = 20, .bytes = 200'000, .evictions = 1};
  gauges.memory_limit_bytes = 256 << 20;
  TierGauges disk = {.stats = {.name = "disk", .hits = 5, .misses = 9, .failures = 1},
                     .limit_bytes = 1 << 30};
  disk.stats.stored = {.entries = 60, .bytes = 400'000, .evictions = 2};
  disk.guard.read_times.Add(0.004);
  gauges.tiers = {disk, {.stats = {.name = "shared"}}};
  gauges.leases = {.taken = 4, .taken_over = 1, .waited = 2};
  gauges.solve_limit_bytes = int64_t{8} << 30;
  gauges.request_limit_bytes = int64_t{512} << 20;
  gauges.certificate_end_seconds = 1'900'000'000;
  gauges.suppressed_lines = 11;
  gauges.dropped_lines = 12;
  gauges.spans = {.sent = 4711, .dropped = 13, .failed = 7};
  gauges.ready = true;
  return gauges;
}

// But for what the process is like.
TEST(GoldenMetrics, AreAsReviewed) {
  Metrics metrics("0.1.0");
  Happen(metrics);
  static const std::regex of_process("\n(process_[a-z_]*) [-+.e0-9]+");
  ExpectAsReviewed(FileOf(kMetrics), std::regex_replace(metrics.Collect(BusyGauges()).Text(),
                                                        of_process, "\n$1 VALUE"));
}

TEST(GoldenFiles, BelongToACase) {
  std::set<std::string> expected = {FileOf(kTopJson), FileOf(kMetrics)};
  for (const Case& golden : kCases) expected.insert(FileOf(golden.name));
  for (const Drawing& drawing : kDrawings) expected.insert(FileOf(drawing.name));
  EXPECT_EQ(expected.size(), 2 + std::size(kCases) + std::size(kDrawings))
      << "two cases have one name";
  for (const auto& entry : std::filesystem::directory_iterator(".")) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".txt" || name == "CMakeLists.txt") continue;
    EXPECT_TRUE(expected.count(name) == 1) << name << " is no case's; delete it";
  }
}

}  // namespace

int Main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--update") != 0) {
      std::fprintf(stderr, "unknown argument %s; there is only --update\n", argv[i]);
      return 1;
    }
    update = true;
  }
  // So that paths in commands and errors are the same on every machine.
  if (chdir(STOWAGE_GOLDEN_FOLDER) != 0) {
    std::perror(STOWAGE_GOLDEN_FOLDER);
    return 1;
  }
  return RUN_ALL_TESTS();
}

}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
