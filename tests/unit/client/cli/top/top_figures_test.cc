#include "client/cli/top/top_figures.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::Pair;

Scrape ScrapeOf(const std::string& text, double elapsed_seconds = 0) {
  absl::StatusOr<MetricSamples> samples = ParseMetricsText(text);
  EXPECT_THAT(samples, IsOk());
  return {samples.ok() ? *std::move(samples) : MetricSamples{}, 1'000'000 + elapsed_seconds,
          elapsed_seconds};
}

std::string Calls(int ok, int canceled, int started) {
  return "grpc_server_started_total{grpc_method=\"Solve\"} " + std::to_string(started) +
         "\ngrpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"Solve\"} " +
         std::to_string(ok) +
         "\ngrpc_server_handled_total{grpc_code=\"Canceled\",grpc_method=\"Solve\"} " +
         std::to_string(canceled) + "\n";
}

TEST(TopFigures, CountsCallsAndErrorsSinceTheStartAndInTheInterval) {
  const Scrape before = ScrapeOf(Calls(100, 2, 102), 10);
  const Scrape now = ScrapeOf(Calls(160, 5, 168), 14);
  const TopFigures figures = FiguresOf(now, &before);
  const CallFigures& all = figures.since_start.calls.at("Solve");
  EXPECT_EQ(all.calls, 165);
  EXPECT_THAT(all.errors, ElementsAre(Pair("Canceled", 5)));
  ASSERT_TRUE(figures.last.has_value());
  EXPECT_EQ(figures.last->seconds, 4);
  const CallFigures& last = figures.last->calls.at("Solve");
  EXPECT_EQ(last.calls, 63);
  EXPECT_THAT(last.errors, ElementsAre(Pair("Canceled", 3)));
  EXPECT_EQ(figures.last->PerSecond(last.calls), 15.75);
  EXPECT_THAT(figures.calls_in_flight, ElementsAre(Pair("Solve", 3)));
}

std::string ClientSeries(const std::string& client, int calls, int refused) {
  return "stowage_client_calls_total{client=\"" + client + "\"} " + std::to_string(calls) +
         "\nstowage_client_refused_total{client=\"" + client + "\"} " + std::to_string(refused) +
         "\nstowage_client_solve_seconds_total{client=\"" + client + "\"} 0.5\n";
}

TEST(TopFigures, ClientsComeAndGo) {
  const Scrape before = ScrapeOf(ClientSeries("a", 10, 1) + ClientSeries("gone", 5, 0), 10);
  const Scrape now = ScrapeOf(ClientSeries("a", 30, 3) + ClientSeries("new", 7, 0), 14);
  EXPECT_FALSE(Restarted(before, now));
  const TopFigures figures = FiguresOf(now, &before);
  ASSERT_EQ(figures.last->clients.size(), 2);
  EXPECT_EQ(figures.last->clients.at("a").calls, 20);
  EXPECT_EQ(figures.last->clients.at("a").refused, 2);
  EXPECT_EQ(figures.last->clients.at("a").solve_seconds, 0);
  EXPECT_EQ(figures.last->clients.at("new").calls, 7);
  EXPECT_EQ(figures.since_start.clients.at("a").solve_seconds, 0.5);
}

TEST(TopFigures, HaveNoIntervalAfterOneScrape) {
  EXPECT_FALSE(FiguresOf(ScrapeOf(Calls(1, 0, 1)), nullptr).last.has_value());
}

TEST(TopFigures, CountANewCodeFromZero) {
  const Scrape before = ScrapeOf("");
  const TopFigures figures = FiguresOf(ScrapeOf(Calls(4, 1, 5), 1), &before);
  EXPECT_EQ(figures.last->calls.at("Solve").calls, 5);
}

TEST(TopFigures, QuantilesAreOfTheIntervalsOwnObservations) {
  const auto text = [](int fast, int all) {
    const std::string name =
        "grpc_server_handling_seconds_bucket{grpc_method=\"Solve\",grpc_type=\"unary\",le=\"";
    return "grpc_server_started_total{grpc_method=\"Solve\",grpc_type=\"unary\"} 1\n" + name +
           "1\"} " + std::to_string(fast) + "\n" + name + "2\"} " + std::to_string(all) + "\n" +
           name + "+Inf\"} " + std::to_string(all) + "\n";
  };
  const Scrape before = ScrapeOf(text(1000, 1000), 0);
  const Scrape now = ScrapeOf(text(1000, 1010), 1);
  const TopFigures figures = FiguresOf(now, &before);
  EXPECT_DOUBLE_EQ(figures.last->calls.at("Solve").latency->p50, 1.5);
  EXPECT_LT(figures.since_start.calls.at("Solve").latency->p50, 0.51);
  const TopFigures quiet = FiguresOf(now, &now);
  EXPECT_FALSE(quiet.last->calls.at("Solve").latency.has_value());
}

TEST(TopFigures, HitsAreAllAnswersThatNeededNoSolve) {
  const TopFigures figures = FiguresOf(ScrapeOf("stowage_answers_total{source=\"solved\"} 2\n"
                                                "stowage_answers_total{source=\"memory_cache\"} 5\n"
                                                "stowage_answers_total{source=\"disk_cache\"} 2\n"
                                                "stowage_answers_total{source=\"coalesced\"} 1\n"),
                                       nullptr);
  EXPECT_DOUBLE_EQ(*figures.since_start.HitRatio(), 0.8);
  EXPECT_EQ(FiguresOf(ScrapeOf("stowage_answers_total{source=\"solved\"} 0\n"), nullptr)
                .since_start.HitRatio(),
            std::nullopt);
}

TEST(TopFigures, ReadTheStateOfTheServer) {
  const TopFigures figures =
      FiguresOf(ScrapeOf("stowage_build_info{version=\"1.2.3\"} 1\n"
                         "stowage_ready 1\n"
                         "process_start_time_seconds 999940\n"
                         "process_cpu_seconds_total 30\n"
                         "stowage_solves_waiting 3\n"
                         "stowage_solves_running_limit 2\n"
                         "stowage_cache_bytes{tier=\"memory\"} 500\n"
                         "stowage_cache_limit_bytes{tier=\"memory\"} 1000\n"
                         "stowage_cache_evictions_total{tier=\"memory\"} 7\n"),
                nullptr);
  EXPECT_EQ(figures.version, "1.2.3");
  EXPECT_TRUE(figures.ready);
  EXPECT_EQ(figures.uptime_seconds, 60);
  EXPECT_EQ(figures.since_start.PerSecond(figures.since_start.cpu_seconds), 0.5);
  EXPECT_EQ(figures.solves_waiting, 3);
  EXPECT_EQ(figures.solves_running_limit, 2);
  EXPECT_EQ(figures.caches[0].tier, "memory");
  EXPECT_EQ(figures.caches[0].bytes, 500);
  EXPECT_EQ(figures.caches[0].limit_bytes, 1000);
  EXPECT_THAT(figures.since_start.evictions, ElementsAre(Pair("memory", 7)));
}

TEST(TopFigures, ListRunningSolvesByThread) {
  const TopFigures figures = FiguresOf(
      ScrapeOf("stowage_running_solve_seconds{solver=\"rotor\",thread=\"10\"} 3.5\n"
               "stowage_running_solve_seconds{solver=\"auto\",thread=\"2\"} 1\n"
               "stowage_running_solve_seconds{solver=\"odd\",thread=\"x\"} 1\n"
               "stowage_running_solve_stages{solver=\"rotor\",thread=\"10\"} 339\n"
               "stowage_running_solve_progress_ratio{solver=\"rotor\",thread=\"10\"} 0.25\n"
               "stowage_running_solve_progress_ratio{solver=\"auto\",thread=\"2\"} 1.5\n"),
      nullptr);
  ASSERT_EQ(figures.running.size(), 2);
  EXPECT_EQ(figures.running[0].thread, 2);
  EXPECT_EQ(figures.running[0].fraction, 1);
  EXPECT_EQ(figures.running[1].solver, "rotor");
  EXPECT_EQ(figures.running[1].stages, 339);
  EXPECT_EQ(figures.running[1].seconds, 3.5);
  EXPECT_EQ(figures.running[1].fraction, 0.25);
}

TEST(TopFigures, ReadValuesThatAreNotFiniteAsZero) {
  const TopFigures figures = FiguresOf(ScrapeOf("process_resident_memory_bytes NaN\n"
                                                "process_open_fds +Inf\n"
                                                "stowage_solve_memory_bytes 1e300\n"),
                                       nullptr);
  EXPECT_EQ(figures.resident_bytes, 0);
  EXPECT_EQ(figures.open_files, 0);
  EXPECT_EQ(figures.solve_bytes, 1'000'000'000'000'000'000);
}

TEST(Restarted, IsTrueWhereTheStartTimesDiffer) {
  const Scrape before = ScrapeOf("process_start_time_seconds 10\n");
  EXPECT_FALSE(Restarted(before, before));
  EXPECT_TRUE(Restarted(before, ScrapeOf("process_start_time_seconds 11\n")));
}

TEST(Restarted, IsTrueWhereACounterDecreased) {
  const std::string start = "process_start_time_seconds 10\n";
  const Scrape before = ScrapeOf(start + "a_total 5\nwait_bucket{le=\"1\"} 3\nsize 9\n");
  EXPECT_FALSE(Restarted(before, ScrapeOf(start + "a_total 5\nwait_bucket{le=\"1\"} 4\nsize 2\n")));
  EXPECT_TRUE(Restarted(before, ScrapeOf(start + "a_total 4\nwait_bucket{le=\"1\"} 4\n")));
  EXPECT_TRUE(Restarted(before, ScrapeOf(start + "a_total 6\n")));  // a series that is gone
}

}  // namespace
}  // namespace stowage
