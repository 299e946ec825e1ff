// The dashboard, the alerts and the objectives only use metrics and labels that the server exposes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/integration/metrics.h"
#include "tests/integration/prometheus.h"
#include "tests/integration/rpc.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "yaml-cpp/yaml.h"

namespace stowage {
namespace {

struct Expression {
  std::string where;  // the panel's title, or the name of the alert or of what is recorded
  std::string text;   // without Grafana's variables
};

std::vector<Expression> ExpressionsOfDashboard() {
  std::vector<Expression> expressions;
  const auto dashboard = nlohmann::json::parse(ReadFile(STOWAGE_DEPLOY "/grafana/stowage.json"));
  for (const auto& panel : dashboard["panels"]) {
    if (panel["type"] == "row") continue;
    for (const auto& target : panel["targets"]) {
      expressions.push_back(
          {panel["title"], absl::StrReplaceAll(std::string(target["expr"]),
                                               {{"$__rate_interval", "5s"}, {"$instance", ".*"}})});
    }
  }
  return expressions;
}

constexpr const char* kObjectiveRules = STOWAGE_DEPLOY "/prometheus/objectives.yml";

std::vector<Expression> ExpressionsOfRules() {
  std::vector<Expression> expressions;
  for (const char* path : {STOWAGE_DEPLOY "/prometheus/alerts.yml", kObjectiveRules}) {
    const YAML::Node file = YAML::LoadFile(path);
    for (const YAML::Node& rule : file["groups"][0]["rules"]) {
      const std::string expression = rule["expr"].as<std::string>();
      if (absl::StartsWith(expression, "vector(")) continue;
      const YAML::Node& name = rule["alert"] ? rule["alert"] : rule["record"];
      expressions.push_back({name.as<std::string>(), expression});
    }
  }
  return expressions;
}

std::vector<std::vector<std::string>> Matches(const std::string& text, const char* pattern) {
  std::vector<std::vector<std::string>> matches;
  const std::regex regex(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) {
    matches.emplace_back(it->begin(), it->end());
  }
  return matches;
}

// Names of metrics, the names of their labels, the values that were seen.
using ExposedLabels = std::map<std::string, std::map<std::string, std::set<std::string>>>;

// Reads lines such as: name{label="value",other="value"} 3
void AddExposed(const std::string& metrics, ExposedLabels* exposed) {
  for (const absl::string_view line : absl::StrSplit(metrics, '\n', absl::SkipEmpty())) {
    if (line[0] == '#') continue;
    const std::string name(line.substr(0, line.find_first_of("{ ")));
    auto& labels = (*exposed)[name];
    // What Prometheus adds.
    for (const char* added : {"instance", "job"}) labels[added];
    for (const auto& label : Matches(std::string(line), "([a-z_]+)=\"([^\"]*)\"")) {
      labels[label[1]].insert(label[2]);
    }
  }
}

// What is wrong with the expression's names and labels; empty: nothing.
std::string FirstMissing(const std::string& expression, const ExposedLabels& exposed) {
  std::set<std::string> labels;  // of all its metrics
  for (const auto& selector :
       Matches(expression,
               R"(\b((?:stowage[_:]|grpc_server_|process_)[\w:]+|up\b|ALERTS\b)(\{[^}]*\})?)")) {
    const auto metric = exposed.find(selector[1]);
    if (metric == exposed.end()) return "no metric " + selector[1];
    for (const auto& [label, values] : metric->second) labels.insert(label);
    for (const auto& match : Matches(selector[2], R"re(([a-z_]+)(=~|!=|=)"([^"]*)")re")) {
      const auto label = metric->second.find(match[1]);
      if (label == metric->second.end()) return selector[1] + " has no label " + match[1];
      if (label->second.empty() || match[3].find('*') != std::string::npos) continue;
      for (const absl::string_view value : absl::StrSplit(match[3], '|')) {
        if (label->second.count(std::string(value)) == 0) {
          return absl::StrCat(match[1], " is never ", value);
        }
      }
    }
  }
  if (labels.empty()) return "no metric at all";
  for (const auto& list : Matches(expression, R"(\b(?:by|on)\s*\(([^)]*)\))")) {
    for (const absl::string_view label :
         absl::StrSplit(list[1], absl::ByAnyChar(", "), absl::SkipEmpty())) {
      if (labels.count(std::string(label)) == 0) return absl::StrCat("no label ", label);
    }
  }
  return "";
}

// Some calls of every kind: misses, hits, invalid requests, execution reports.
void Ask(const Remote& remote, int round) {
  v1::SolveResponse response;
  for (const char* solver : {"auto", "rotor", "no such solver"}) {
    v1::SolveRequest request = SmallSolveRequest();
    request.set_solver(solver);
    request.mutable_options()->set_use_cache(true);
    request.mutable_platform()->set_memory_bytes(1000 + round);
    for (int i = 0; i < 2; ++i) remote.Solve(request, &response);
  }
  const auto stub = v1::Scheduler::NewStub(remote.channel());
  v1::ReportExecutionRequest report;
  report.set_predicted_step_seconds(1);
  report.set_measured_step_seconds(1.03);
  report.set_predicted_peak_bytes(1000);
  report.set_measured_peak_bytes(1010);
  grpc::ClientContext context;
  v1::ReportExecutionResponse reported;
  EXPECT_TRUE(stub->ReportExecution(&context, report, &reported).ok());
}

bool HasNumber(const nlohmann::json& result) {
  for (const auto& sample : result) {
    double value = 0;
    if (absl::SimpleAtod(std::string(sample["value"][1]), &value) && std::isfinite(value)) {
      return true;
    }
  }
  return false;
}

class Expressions : public testing::Test {
 protected:
  Expressions()
      : server_({"--cache-dir", folder_.Path("cache")}),
        remote_(server_.address()),
        prometheus_(server_.http_address(), Prometheus::Options{.rules = kObjectiveRules}) {
    Ask(remote_, 0);
    AddExposed(HttpGet(server_.http_address(), "/metrics").substr(4), &real_);
    // Prometheus' own.
    real_["up"] = {{"instance", {}}, {"job", {}}};
    real_["ALERTS"] = {{"alertname", {}}, {"alertstate", {}}};
    const YAML::Node file = YAML::LoadFile(kObjectiveRules);
    for (const YAML::Node& rule : file["groups"][0]["rules"]) {
      if (rule["record"]) real_[rule["record"].as<std::string>()]["objective"];
    }
  }

  // Names are the real server's but for `others`, which a sound server without TLS does not have;
  // values of labels may be those of a bad day.
  void ExpectExposed(const std::vector<Expression>& expressions,
                     const std::set<std::string>& others) {
    ExposedLabels exposed = real_;
    AddExposed(RunProgram({STOWAGE_BAD_DAY_BINARY}).out, &exposed);
    std::set<std::string> only_on_a_bad_day;
    for (const Expression& expression : expressions) {
      EXPECT_EQ(FirstMissing(expression.text, exposed), "") << expression.where;
      for (const auto& name :
           Matches(expression.text, R"(\b(?:stowage|grpc_server|process)_\w+)")) {
        if (real_.count(name[0]) == 0) only_on_a_bad_day.insert(name[0]);
      }
    }
    EXPECT_EQ(only_on_a_bad_day, others);
  }

  const TempFolder folder_;
  const ServerProcess server_;
  const Remote remote_;
  const Prometheus prometheus_;
  ExposedLabels real_;
};

TEST_F(Expressions, OfTheDashboardNameWhatTheServerExports) {
  ExpectExposed(ExpressionsOfDashboard(), {"stowage_schedules_refused_total"});
  // The list of servers to choose from.
  EXPECT_THAT(ReadFile(STOWAGE_DEPLOY "/grafana/stowage.json"),
              testing::HasSubstr("label_values(stowage_ready, instance)"));
}

TEST_F(Expressions, OfTheRulesNameWhatTheServerExports) {
  ExpectExposed(ExpressionsOfRules(),
                {"stowage_schedules_refused_total", "stowage_tls_certificate_end_seconds"});
}

TEST_F(Expressions, OfTheRulesCanBeEvaluated) {
  for (const Expression& expression : ExpressionsOfRules()) {
    EXPECT_NO_THROW(prometheus_.Query(expression.text)) << expression.where;
  }
}

TEST_F(Expressions, OfTheDashboardFindSomethingOnceThereIsTraffic) {
  std::vector<Expression> without = ExpressionsOfDashboard();
  ASSERT_GT(without.size(), 30);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (int round = 1; !without.empty() && std::chrono::steady_clock::now() < end; ++round) {
    Ask(remote_, round);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    without.erase(std::remove_if(without.begin(), without.end(),
                                 [this](const Expression& expression) {
                                   return HasNumber(prometheus_.Query(expression.text));
                                 }),
                  without.end());
  }
  for (const Expression& expression : without) {
    ADD_FAILURE() << expression.where << " shows nothing: " << expression.text;
  }
}

// The tests above can fail.
TEST(UnknownNames, AreFound) {
  ExposedLabels exposed;
  AddExposed("# HELP stowage_x\nstowage_x{tier=\"disk\"} 1\nup 1\n", &exposed);
  EXPECT_EQ(FirstMissing("sum by (tier, job) (stowage_x{tier=\"disk\"})", exposed), "");
  EXPECT_EQ(FirstMissing("stowage_y", exposed), "no metric stowage_y");
  EXPECT_EQ(FirstMissing("stowage_x{kind=\"disk\"}", exposed), "stowage_x has no label kind");
  EXPECT_EQ(FirstMissing("stowage_x{tier=~\"disk|tape\"}", exposed), "tier is never tape");
  EXPECT_EQ(FirstMissing("sum by (kind) (stowage_x)", exposed), "no label kind");
  EXPECT_EQ(FirstMissing("vector(0)", exposed), "no metric at all");
}

}  // namespace
}  // namespace stowage
