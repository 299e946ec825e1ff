// deploy/prometheus: the alerts, by promtool's clock and by a real Prometheus that watches a real
// server in trouble.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/metrics.h"
#include "tests/integration/prometheus.h"
#include "tests/integration/rpc.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "yaml-cpp/yaml.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kAlerts = STOWAGE_DEPLOY "/prometheus/alerts.yml";
constexpr const char* kObjectives = STOWAGE_DEPLOY "/prometheus/objectives.yml";
constexpr const char* kTests[] = {STOWAGE_DEPLOY "/prometheus/alerts_test.yml",
                                  STOWAGE_DEPLOY "/prometheus/objectives_test.yml"};

std::vector<YAML::Node> Alerts() {
  std::vector<YAML::Node> alerts;
  for (const char* path : {kAlerts, kObjectives}) {
    for (const YAML::Node& group : YAML::LoadFile(path)["groups"]) {
      for (const YAML::Node& rule : group["rules"]) {
        if (rule["alert"]) alerts.push_back(rule);
      }
    }
  }
  return alerts;
}

TEST(Alerts, FireAndStaySilentAsTheirTestsSay) {
  for (const char* tests : kTests) {
    const ProgramResult result = RunProgram({"/usr/bin/promtool", "test", "rules", tests});
    EXPECT_EQ(result.exit_code, 0) << result;
    EXPECT_THAT(result.out, HasSubstr("SUCCESS"));
  }
}

TEST(Alerts, HaveEachATestInWhichTheyFire) {
  const std::string tests = ReadFile(kTests[0]) + ReadFile(kTests[1]);
  for (const YAML::Node& alert : Alerts()) {
    EXPECT_THAT(tests, HasSubstr(absl::StrCat("exp_samples: [{labels: '{alertname=\"",
                                              alert["alert"].as<std::string>(), "\"")));
  }
}

TEST(Alerts, SayWhatToDoUnderAHeadingOfTheRunbook) {
  const std::string page = ReadFile(STOWAGE_DEPLOY "/docs/alerts.md");
  std::set<std::string> names;
  for (const YAML::Node& alert : Alerts()) {
    const std::string name = alert["alert"].as<std::string>();
    names.insert(name);
    EXPECT_THAT(page, HasSubstr("\n### " + name + "\n"));
    EXPECT_EQ(alert["annotations"]["runbook"].as<std::string>(),
              "deploy/docs/alerts.md#" + absl::AsciiStrToLower(name));
    EXPECT_THAT(alert["labels"]["severity"].as<std::string>(), testing::AnyOf("page", "ticket"));
  }
  // And no heading is of an alert that is gone.
  const std::regex heading("\n### (Stowage[A-Za-z]+)\n");
  for (std::sregex_iterator it(page.begin(), page.end(), heading), end; it != end; ++it) {
    EXPECT_THAT(names, testing::Contains((*it)[1].str()));
  }
}

TEST(Alerts, AreReadByTheExampleConfiguration) {
  const ProgramResult result = RunProgram(
      {"/usr/bin/promtool", "check", "config", STOWAGE_DEPLOY "/prometheus/prometheus.yml"});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.out, HasSubstr("2 rule files found"));
}

// The same alerts in a hurry: every window is five seconds, what must last a second suffices.
std::string Hurried() {
  YAML::Node file = YAML::LoadFile(kAlerts);
  for (YAML::Node rule : file["groups"][0]["rules"]) {
    rule["expr"] =
        std::regex_replace(rule["expr"].as<std::string>(), std::regex("\\[[0-9]+[mh]\\]"), "[5s]");
    if (rule["for"]) rule["for"] = "1s";
  }
  YAML::Emitter out;
  out << file;
  return out.c_str();
}

// A server and a Prometheus that has found it in good order.
class RealAlerts : public testing::Test {
 protected:
  void Watch(const ServerProcess& server) {
    rules_ = std::make_unique<TempFolder>();
    prometheus_ = std::make_unique<Prometheus>(
        server.http_address(),
        Prometheus::Options{.rules = rules_->Write("alerts.yml", Hurried())});
    // On a busy machine the first scrape takes longer than the second for which a server may be
    // absent: that alert is over before anything is expected.
    prometheus_->WaitFor("up == 1 unless on() ALERTS{alertname=\"StowageDown\"}");
  }
  // Nothing fires although rates have been to be had for a while.
  void ExpectSilence() {
    prometheus_->WaitFor("count_over_time(stowage_ready[1m]) > 12");
    EXPECT_THAT(Names(), IsEmpty());
  }
  // Does `trouble` again and again until the alert fires, and it alone.
  void ExpectAlert(
      const std::string& name, const std::function<void()>& trouble = [] {}) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    std::map<std::string, nlohmann::json> firing;
    while (firing.count(name) == 0 && std::chrono::steady_clock::now() < end) {
      trouble();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      firing = prometheus_->Firing();
    }
    ASSERT_THAT(Names(), ElementsAre(name));
    const nlohmann::json& annotations = firing[name]["annotations"];
    EXPECT_THAT(std::string(annotations["summary"]), HasSubstr("127.0.0.1:"));
    EXPECT_THAT(annotations.dump(), Not(HasSubstr("error")));
  }
  void ExpectSilenceAgain() { prometheus_->WaitFor("absent(ALERTS{alertstate=\"firing\"})"); }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, alert] : prometheus_->Firing()) names.push_back(name);
    return names;
  }

 private:
  std::unique_ptr<TempFolder> rules_;
  std::unique_ptr<Prometheus> prometheus_;
};

TEST_F(RealAlerts, AFullDiskIsReportedUntilThereIsRoom) {
  const TempFolder folder;
  ServerProcess server({"--cache-dir", folder.Path("cache")});
  const Remote remote(server.address());
  v1::SolveRequest request = SmallSolveRequest();
  request.mutable_options()->set_use_cache(true);
  const auto solve = [&] {
    request.mutable_platform()->set_memory_bytes(request.platform().memory_bytes() + 100);
    v1::SolveResponse response;
    EXPECT_TRUE(remote.Solve(request, &response).ok());
  };
  Watch(server);
  solve();
  ExpectSilence();
  const rlimit full{.rlim_cur = 4096, .rlim_max = RLIM_INFINITY};
  ASSERT_EQ(prlimit(server.pid(), RLIMIT_FSIZE, &full, nullptr), 0);
  ExpectAlert("StowageStoreFailures", solve);
  const rlimit room{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  ASSERT_EQ(prlimit(server.pid(), RLIMIT_FSIZE, &room, nullptr), 0);
  solve();
  ExpectSilenceAgain();
}

TEST_F(RealAlerts, ADiskCacheThatCouldNotBeOpenedIsReported) {
  const TempFolder folder;
  ServerProcess server({"--cache-dir", folder.Write("file", "") + "/cache"});
  Watch(server);
  ExpectAlert("StowageNoStore");
}

TEST_F(RealAlerts, CallsThatAFullQueueRejectsAreReportedUntilItHasRoom) {
  ServerProcess server({std::begin(kOneAtATime), std::end(kOneAtATime)});
  const Remote remote(server.address());
  Watch(server);
  EXPECT_TRUE(remote.Answers());
  ExpectSilence();
  const auto running = Occupy(remote, LongSolveRequest());
  ExpectAlert("StowageQueueFull", [&] { EXPECT_FALSE(remote.Answers()); });
  running->Cancel();
  ExpectSilenceAgain();
}

TEST_F(RealAlerts, AServerThatDrainsForLongAndThenIsGoneIsReported) {
  ServerProcess server({"--grace", "1000s"});
  const Remote remote(server.address());
  Watch(server);
  ExpectSilence();
  PendingSolve running(remote, LongSolveRequest());
  WaitForMetric(server, "stowage_solves_running", 1);
  server.Signal(SIGTERM);
  ExpectAlert("StowageNotReady");
  running.Cancel();
  EXPECT_THAT(server.WaitForExit(), testing::Optional(0));
  ExpectAlert("StowageDown");
}

}  // namespace
}  // namespace stowage
