#include "client/c/stowage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "nlohmann/json.hpp"
#include "solver/json/json_writer.h"
#include "tests/support/chains.h"

namespace stowage {
namespace {

using nlohmann::json;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Function = stowage_call* (*)(const char* request, size_t size);
using Call = std::unique_ptr<stowage_call, void (*)(stowage_call*)>;

Call Begin(Function function, const std::string& request) {
  return {function(request.data(), request.size()), stowage_free};
}

// The events that are left.
std::vector<json> EventsOf(const Call& call) {
  std::vector<json> events;
  while (stowage_has_ended(call.get()) == 0) {
    const char* const event = stowage_next(call.get(), 60'000);
    if (event != nullptr) events.push_back(json::parse(event));
  }
  return events;
}

json Ask(Function function, const json& request) {
  const std::vector<json> events = EventsOf(Begin(function, request.dump()));
  EXPECT_THAT(events, Not(IsEmpty()));
  return events.empty() ? json() : events.back();
}

json ResultOf(Function function, const json& request) {
  const json event = Ask(function, request);
  EXPECT_TRUE(event.contains("result")) << event;
  return event.value("result", json());
}

// "field: problem" of each violated field.
std::vector<std::string> ViolatedBy(const json& event) {
  std::vector<std::string> texts;
  for (const json& one : event.at("error").at("violations")) {
    texts.push_back(one.at("field").get<std::string>() + ": " +
                    one.at("problem").get<std::string>());
  }
  return texts;
}

json JsonOf(const Chain& chain) {
  JsonObject object;
  VisitFields(object, chain);
  return json::parse(object.Take().dump());
}

json Request(const Chain& chain, int64_t memory_bytes) {
  return {{"chain", JsonOf(chain)}, {"platform", {{"memory_bytes", memory_bytes}}}};
}

// A chain whose stages all differ: rotor takes seconds for it with many slots.
json SlowRequest() {
  Chain chain = EqualChain(1200);
  for (size_t i = 0; i < chain.stages.size(); ++i) {
    chain.stages[i].forward_seconds += 0.01 * static_cast<double>(i * 7919 % 101);
    chain.stages[i].output_bytes += static_cast<int64_t>(i * 31 % 17);
    chain.stages[i].saved_bytes += static_cast<int64_t>(i * 131 % 97) + 17;
  }
  json request = Request(chain, 15'000);
  request["solver"] = "rotor";
  request["options"] = {{"memory_slots", 500}};
  request["working_bytes"] = int64_t{32} << 30;
  return request;
}

TEST(CInterface, SolvesAndSimulatesWhatItSolved) {
  const json request = Request(EqualChain(8), 170);
  const json answer = ResultOf(stowage_solve, request);
  EXPECT_EQ(answer["outcome"], "OPTIMAL");
  EXPECT_EQ(answer["platform"]["memory_bytes"], "170");
  json simulate = request;
  simulate["schedule"] = answer["schedule"];
  const json simulation = ResultOf(stowage_simulate, simulate);
  EXPECT_EQ(simulation["feasible"], true);
  EXPECT_EQ(simulation["prediction"]["makespan_seconds"], answer["prediction"]["makespan_seconds"]);
  EXPECT_EQ(simulation["timeline"].size(), answer["schedule"]["operations"].size());
}

TEST(CInterface, IgnoresTheOptionOfFormerVersions) {
  json request = Request(EqualChain(8), 170);
  const json answer = ResultOf(stowage_solve, request);
  request["options"] = {{"tight_bound", true}};
  EXPECT_EQ(ResultOf(stowage_solve, request)["prediction"], answer["prediction"]);
}

TEST(CInterface, SaysHowMuchIsEnoughWhereNothingFits) {
  const json answer = ResultOf(stowage_solve, Request(EqualChain(8), 10));
  EXPECT_EQ(answer["outcome"], "INFEASIBLE");
  EXPECT_FALSE(answer.contains("schedule"));
  EXPECT_TRUE(answer.contains("minimum_memory_bytes"));
}

TEST(CInterface, FindsFrontiersBudgetsAndUnits) {
  json request = Request(EqualChain(8), 0);
  request["points"] = 5;
  EXPECT_EQ(ResultOf(stowage_frontier, request)["points"].size(), 5);

  const json range = ResultOf(stowage_memory, {{"chain", request["chain"]}, {"budget", "50%"}});
  EXPECT_EQ(std::stoi(range["budget_bytes"].get<std::string>()),
            (std::stoi(range["floor_bytes"].get<std::string>()) +
             std::stoi(range["most_bytes"].get<std::string>())) /
                2);
  EXPECT_THAT(ViolatedBy(Ask(stowage_memory, {{"chain", request["chain"]}, {"budget", "x%"}})),
              ElementsAre(HasSubstr("budget: 'x%' is not a share")));

  EXPECT_EQ(ResultOf(stowage_units, {{"size", "4GiB"}})["bytes"], "4294967296");
  EXPECT_EQ(ResultOf(stowage_units, {{"bytes", 4096}})["text"], "4.00 KiB");
  EXPECT_EQ(ResultOf(stowage_units, {{"seconds", 0.25}})["text"], "250.0 ms");
  EXPECT_THAT(ViolatedBy(Ask(stowage_units, json::object())),
              ElementsAre("size: give one of size, bytes and seconds"));
  EXPECT_THAT(ViolatedBy(Ask(stowage_units, {{"seconds", "NaN"}})),
              ElementsAre("seconds: is nan; it must be from 0 to below 1e15"));
}

TEST(CInterface, ExportsForTheFrameworksOfItsCatalog) {
  const json catalog = ResultOf(stowage_catalog, json::object());
  EXPECT_THAT(catalog["solvers"], Not(IsEmpty()));
  json request = Request(EqualChain(8), 200);
  for (const json& target : catalog["targets"]) {
    request["export_for"] = target["name"];
    const json exported = ResultOf(stowage_export, request);
    EXPECT_TRUE(exported.contains("full")) << target;
    EXPECT_NE(exported["text"], "") << target;
  }
  request["export_for"] = "keras";
  EXPECT_THAT(ViolatedBy(Ask(stowage_export, request)),
              ElementsAre(HasSubstr("export_for: is no framework; choose one of ")));
}

TEST(CInterface, ReusesAPlanWhereItServesAndSaysWhereItDoesNot) {
  const json request = Request(EqualChain(8), 170);
  json reuse = request;
  reuse["made_for"] = request;
  reuse["answer"] = ResultOf(stowage_solve, request);
  const std::string solver = reuse["answer"]["origin"]["solver"];
  const json catalog = ResultOf(stowage_catalog, json::object());
  for (const json& one : catalog["solvers"]) {
    if (one["name"] == solver) reuse["solver_version"] = one["version"];
  }
  EXPECT_EQ(ResultOf(stowage_reuse, reuse)["schedule"], reuse["answer"]["schedule"]);

  json slower = reuse;  // measured again, with other times
  for (json& stage : slower["chain"]["stages"]) stage["forward_seconds"] = 1.1;
  EXPECT_GT(ResultOf(stowage_reuse, slower)["prediction"]["makespan_seconds"],
            reuse["answer"]["prediction"]["makespan_seconds"]);

  json larger = reuse;
  larger["platform"]["memory_bytes"] = 180;
  const json error = Ask(stowage_reuse, larger)["error"];
  EXPECT_EQ(error["code"], 9);
  EXPECT_EQ(error["message"], "was made for memory 170 B, now 180 B");
  json newer = reuse;
  newer["solver_version"] = 0;
  EXPECT_EQ(Ask(stowage_reuse, newer)["error"]["message"], "is by another version of its solver");
  json hostile = reuse;
  hostile["answer"]["prediction"]["overhead"] = "NaN";
  EXPECT_EQ(Ask(stowage_reuse, hostile)["error"]["code"], 9);
}

TEST(CInterface, ChoosesWaysToSaveAStage) {
  const json linear = {{"name", "linear"},  {"seconds", 2},  {"kept", true},
                       {"output_bytes", 1}, {"saves", true}, {"saves_argument", true}};
  json cheap = linear;
  cheap["name"] = "gelu";
  cheap["seconds"] = 1e-3;
  cheap["output_bytes"] = 50;
  const json ways = ResultOf(
      stowage_ways,
      {{"operators", {linear, cheap, linear, cheap}}, {"most_bytes", 60}, {"count", 4}})["ways"];
  ASSERT_THAT(ways, Not(IsEmpty()));
  EXPECT_THAT(ways, Each(testing::Truly([](const json& way) {
                return !way["operators"].empty() && way["rerun_seconds"] < 4.1;
              })));
  EXPECT_THAT(ViolatedBy(Ask(stowage_ways, {{"operators", {{{"seconds", -1}}}}, {"count", -1}})),
              ElementsAre("operators[0].seconds: is -1; it must be from 0 to 1e6",
                          "count: is -1; it must be from 0 to 100"));
}

TEST(CInterface, NamesEveryFieldThatIsWrong) {
  json request = Request(EqualChain(2), 100);
  request["solver"] = "magic";
  request["chain"]["stages"][1]["saved_bytes"] = 1;
  request["timeout_seconds"] = 0;
  const json error = Ask(stowage_solve, request);
  EXPECT_EQ(error["error"]["code"], 3);
  EXPECT_THAT(ViolatedBy(error), ElementsAre(HasSubstr("chain.stages[1].saved_bytes: is 1"),
                                             HasSubstr("solver: 'magic' is not known"),
                                             HasSubstr("timeout_seconds: is 0")));
  EXPECT_THAT(ViolatedBy(Ask(stowage_solve, {{"chain", request["chain"]}, {"chian", 1}})),
              ElementsAre("chian: unknown field"));
  request = {{"chain", JsonOf(EqualChain(2))}};
  EXPECT_THAT(ViolatedBy(Ask(stowage_solve, request)),
              ElementsAre(HasSubstr("platform.memory_bytes: is missing")));
}

TEST(CInterface, TakesAnyBytes) {
  const Function functions[] = {stowage_solve, stowage_frontier, stowage_simulate, stowage_export,
                                stowage_reuse, stowage_ways,     stowage_memory,   stowage_units};
  const std::string text = Request(EqualChain(3), 100).dump();
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = text;
    for (int j = 0; j <= i % 3; ++j) {
      damaged[random() % damaged.size()] = "{}[]\",:0129-ex\xff"[random() % 15];
    }
    const Call call = Begin(functions[random() % std::size(functions)], damaged);
    const std::vector<json> events = EventsOf(call);
    ASSERT_THAT(events, Not(IsEmpty())) << damaged;
    ASSERT_TRUE(events.back().contains("error") || events.back().contains("result")) << damaged;
  }
  EXPECT_THAT(EventsOf(Call(stowage_solve(nullptr, 0), stowage_free)).back()["error"]["message"],
              HasSubstr("request: line 1, column 1: not JSON: "));
}

TEST(CInterface, ChecksTextsBeforeTheyAreRead) {
  const auto check = [](const std::string& text) {
    const Call call(stowage_check_json("chain", text.data(), text.size()), stowage_free);
    return EventsOf(call).back();
  };
  EXPECT_TRUE(check("{\"name\": \"a\"}").contains("result"));
  EXPECT_THAT(ViolatedBy(check("{\"a\": {\"b\": 1, \"b\": 2}}")),
              ElementsAre("chain.a.b: is given twice"));
  EXPECT_THAT(ViolatedBy(check("\xFF")),
              ElementsAre(HasSubstr("chain: line 1, column 1: not JSON: ")));
}

TEST(CInterface, PrintsJsonInTheOrderOfItsMembers) {
  const json reply = ResultOf(stowage_print_json, json::parse(R"({"json": {}})"));
  EXPECT_EQ(reply["text"], "{}\n");
  const std::string request = R"({"json": {"b": [1, 0.5, "<"], "a": {"c": null}}})";
  EXPECT_EQ(EventsOf(Begin(stowage_print_json, request)).back()["result"]["text"],
            "{\n \"b\": [\n  1,\n  0.5,\n  \"\\u003c\"\n ],\n \"a\": {\n  \"c\": null\n }\n}\n");
  EXPECT_THAT(ViolatedBy(Ask(stowage_print_json, {{"text", 1}})),
              ElementsAre(HasSubstr("json: is missing")));
}

TEST(CInterface, HasProgressAndBetterAnswersOfACallThatTakesLong) {
  json request = SlowRequest();
  request["solver"] = "auto";
  request["stream"] = true;
  request["options"] = {{"time_budget_seconds", 0.5}};
  const std::vector<json> events = EventsOf(Begin(stowage_solve, request.dump()));
  size_t improved = 0;
  for (const json& event : events) improved += event.contains("improved") ? 1 : 0;
  EXPECT_GT(improved, 0);
  EXPECT_TRUE(events.back().contains("result"));
}

TEST(CInterface, EndsACallThatIsCancelledOrFreed) {
  const Call call = Begin(stowage_solve, SlowRequest().dump());
  stowage_cancel(call.get());
  const std::vector<json> events = EventsOf(call);
  ASSERT_THAT(events, testing::SizeIs(testing::Ge(1)));
  EXPECT_EQ(events.back()["error"]["code"], 1);
  EXPECT_EQ(stowage_next(call.get(), 60'000), nullptr) << "the last one was returned";
  stowage_free(Begin(stowage_solve, SlowRequest().dump()).release());
  stowage_free(nullptr);
}

TEST(CInterface, SaysThatTimeRanOut) {
  json request = SlowRequest();
  request["timeout_seconds"] = 0.05;
  EXPECT_EQ(Ask(stowage_frontier, request).at("error").at("code"), 4);
}

TEST(CInterface, AnswersCallsOfManyThreads) {
  const std::string request = Request(EqualChain(12), 200).dump();
  const json expected = EventsOf(Begin(stowage_solve, request)).back()["result"]["schedule"];
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      EXPECT_EQ(EventsOf(Begin(stowage_solve, request)).back()["result"]["schedule"], expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CInterface, HasTheHashOfRoutingKeys) {
  EXPECT_EQ(stowage_fnv1a("", 0), 0xcbf29ce484222325);
  EXPECT_EQ(stowage_fnv1a("a", 1), 0xaf63dc4c8601ec8c);
  EXPECT_THAT(stowage_version(), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

}  // namespace
}  // namespace stowage
