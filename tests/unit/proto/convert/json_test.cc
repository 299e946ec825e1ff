#include "proto/convert/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/request_message.h"
#include "proto/convert/schedule_message.h"
#include "proto/convert/verdict_message.h"
#include "proto/service/results.h"
#include "solver/json/print_json.h"
#include "tests/support/chains.h"
#include "tests/support/profiles.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

absl::Status ParseChain(const char* json) {
  v1::Chain chain;
  return FromJson(json, "chain", &chain);
}

TEST(FromJson, ReadsNumbersAndStringsAlike) {
  v1::Chain chain;
  ASSERT_THAT(FromJson(R"({"input_bytes": "12", "stages": [{"output_bytes": 34}],
                           "provenance": {"any": [1, {"thing": null}]}})",
                       "chain", &chain),
              IsOk());
  EXPECT_EQ(chain.input_bytes(), 12);
  EXPECT_EQ(chain.stages(0).output_bytes(), 34);
  EXPECT_FALSE(chain.has_input_gradient_bytes());
}

TEST(FromJson, NamesTheFieldInOneLine) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"stages": [{}, {"forwrd": 1}]})", "chain.stages[1].forwrd: unknown field"},
      {R"({"nam": 1})", "chain.nam: unknown field"},
      {R"({"stages": [{"output_bytes": 9223372036854775808}]})",
       "chain.stages[0].output_bytes: 9223372036854775808 is not a whole number"},
      {R"({"stages": [{"output_bytes": 1.5}]})",
       "chain.stages[0].output_bytes: 1.5 is not a whole number"},
      {R"({"stages": [{"forward_seconds": "fast"}]})",
       "chain.stages[0].forward_seconds: \"fast\" is not a number"},
      {R"({"stages": [{"no_recompute": 3}]})",
       "chain.stages[0].no_recompute: 3 is not true or false"},
      {R"({"stages": [{}, {"forward_seconds": NaN}]})",
       "chain.stages[1].forward_seconds: line 1, column 37: not JSON"},
      {R"({"stages": [{}, {"forward_seconds": -Infinity}]})",
       "chain.stages[1].forward_seconds: line 1"},
      {R"({"stages": [{"forward_seconds": 1e999}]})", "chain.stages[0].forward_seconds: "},
      {R"({"stages": [{"name": "x")", "chain.stages[0]: line 1, column 25: not JSON"},
      {R"({"stages": 3})", "chain.stages: 3 is not"},
      {R"({"a\nkey": NaN})", "chain.a key: line 1, column 12: not JSON"},
      {"[1]", "chain: is an array, not a JSON object"},
      {R"({"stages": [{}, null]})", "chain.stages[1]: is null"},
      {"7", "chain: is not a JSON object"},
      {R"({"stages": [{"name": "a", "name": "b"}]})", "chain.stages[0].name: is given twice"},
      {"", "chain: line 1, column 1: not JSON"},
  };
  for (const auto& [json, message] : cases) {
    EXPECT_THAT(ParseChain(json), Fails(absl::StatusCode::kInvalidArgument,
                                        AllOf(StartsWith(message), Not(HasSubstr("\n")))))
        << json;
  }
}

// Protobuf's parser would take minutes for this, and then fail without naming anything.
TEST(FromJson, RefusesDeepNestingAtOnce) {
  const std::string deep =
      R"({"provenance": {"a": )" + std::string(200'000, '[') + std::string(200'000, ']') + "}}";
  EXPECT_THAT(ParseChain(deep.c_str()),
              Fails(absl::StatusCode::kInvalidArgument,
                    AllOf(StartsWith("chain.provenance.a[0][0]"), HasSubstr("too deep"))));
  std::string allowed = R"({"stages": [{}], "provenance": )";
  for (int level = 0; level < 30; ++level) allowed += R"({"b": )";
  EXPECT_THAT(ParseChain((allowed + "1" + std::string(31, '}')).c_str()), IsOk());
}

TEST(FromJson, IgnoresAByteOrderMark) {
  EXPECT_THAT(ParseChain("\xEF\xBB\xBF{\"name\": \"x\"}"), IsOk());
}

TEST(FromJson, NamesAnotherEncodingByItsMark) {
  const auto fails_as = [](const char* encoding) {
    return Fails(absl::StatusCode::kInvalidArgument,
                 testing::Eq(absl::StrCat("chain: is ", encoding, "; convert it to UTF-8")));
  };
  v1::Chain chain;
  const std::string_view marks[] = {std::string_view("\xFF\xFE{\0}\0", 6),
                                    std::string_view("\xFE\xFF\0{\0}", 6)};
  for (const std::string_view text : marks) {
    EXPECT_THAT(FromJson({text.data(), text.size()}, "chain", &chain), fails_as("UTF-16"));
  }
  for (const char* text : {"\xFF\xFE\0\0{\0\0\0", "\0\0\xFE\xFF\0\0\0{"}) {
    EXPECT_THAT(FromJson({text, 8}, "chain", &chain), fails_as("UTF-32"));
  }
}

TEST(FromJson, EscapesBytesThatAreNotUtf8) {
  EXPECT_THAT(ParseChain("{\"name\": \"\xFF\"}"),
              Fails(absl::StatusCode::kInvalidArgument,
                    AllOf(StartsWith("chain.name: line 1, column 11: not JSON"),
                          HasSubstr(R"(\xff)"), Not(HasSubstr("\xFF")))));
  EXPECT_THAT(ParseChain("\xC3"), Fails(absl::StatusCode::kInvalidArgument,
                                        AllOf(HasSubstr(R"(\xc3)"), Not(HasSubstr("\xC3")))));
  const std::string binary = absl::StrCat("{\"name\": \"", std::string(100'000, 'a'), "\xFF\"}");
  const absl::Status status = ParseChain(binary.c_str());
  EXPECT_LT(status.message().size(), 1000U);
}

TEST(FromJson, NamesTheKindsOfOperations) {
  v1::Schedule schedule;
  EXPECT_THAT(FromJson(R"({"operations": [{"kind": "FORWARD"}]})", "schedule", &schedule),
              Fails(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr("schedule.operations[0].kind"),
                          HasSubstr("FORWARD_SAVE, FORWARD_CHECKPOINT"))));
}

TEST(ScheduleFromJson, TakesABareScheduleOrAWholeAnswer) {
  const v1::Schedule bare = ToMessage(Ops("S1 B1"));
  EXPECT_EQ(ScheduleFromJson(ToJson(bare))->schedule.operations_size(), 2);
  v1::SolveResponse answer;
  *answer.mutable_schedule() = bare;
  answer.mutable_platform()->set_memory_bytes(5);
  EXPECT_EQ(ScheduleFromJson(ToJson(answer))->schedule.operations_size(), 2);
  EXPECT_EQ(ScheduleFromJson(ToJson(answer))->platform.memory_bytes(), 5);
  EXPECT_FALSE(ScheduleFromJson(ToJson(bare))->platform.has_memory_bytes());
  EXPECT_EQ(ScheduleFromJson(R"({"schedule": {"operations": []}, "of_a_newer_server": 1})")
                ->schedule.operations_size(),
            0);
  EXPECT_THAT(ScheduleFromJson(R"({"outcome": "INFEASIBLE"})"),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("INFEASIBLE")));
  EXPECT_THAT(
      ScheduleFromJson(R"({"outcome": "OPTIMAL", "schedule": {"operations": [{"stage": "x"}]}})"),
      Fails(absl::StatusCode::kInvalidArgument, StartsWith("answer.schedule.operations[0].stage")));
  EXPECT_THAT(
      ScheduleFromJson(R"({"operation": []})"),
      Fails(absl::StatusCode::kInvalidArgument, StartsWith("schedule.operation: unknown field")));
}

TEST(ToJson, PrintsDefaultsInSnakeCaseAndLongNumbersAsStrings) {
  v1::SolveResponse answer;
  answer.set_memory_floor_bytes(5);
  const std::string json = ToJson(answer);
  EXPECT_THAT(json, HasSubstr("\"memory_floor_bytes\": \"5\""));
  EXPECT_THAT(json, HasSubstr("\"outcome\": \"OUTCOME_UNSPECIFIED\""));
  EXPECT_THAT(json, Not(HasSubstr("minimum_memory_bytes")));  // unset is not 0
}

TEST(ToJson, PrintsWaysToSaveOnlyWhereThereAre) {
  Chain chain = EqualChain(2);
  chain.stages[1].name = ",\"save_options\":[]";
  v1::SolveRequest request;
  *request.mutable_chain() = ToMessage(chain);
  EXPECT_THAT(ToJson(request), Not(HasSubstr("\"save_options\"")));
  EXPECT_THAT(ToHtmlJson(request), Not(HasSubstr("\"save_options\"")));
  EXPECT_THAT(ToHtmlJson(request), HasSubstr(R"("name":",\"save_options\":[]")"));
  v1::SolveRequest read;
  ASSERT_THAT(FromJson(ToHtmlJson(request), "request", &read), IsOk());
  EXPECT_EQ(FromMessage(read.chain()), chain);
  chain.stages[0].save_options = {{"norms", 20, 3, 0}};
  EXPECT_THAT(ToJson(ToMessage(chain)), HasSubstr("\"save_options\": [\n"));
  EXPECT_THAT(ToHtmlJson(ToMessage(chain)), HasSubstr(R"("save_options":[{"name":"norms")"));
}

// What a user wrote there is not a stage's field.
TEST(ToJson, PrintsAProvenanceWhole) {
  v1::SolveRequest request;
  ASSERT_THAT(FromJson(R"({"chain": {"provenance": {"stages": [{"save_options": []}]},
                                     "stages": [{"name": "a"}, {"name": "b"}]}})",
                       "request", &request),
              IsOk());
  EXPECT_THAT(ToJson(request), HasSubstr("\"save_options\": []"));
  std::string json = ToHtmlJson(request);
  const std::string whole = R"("provenance":{"stages":[{"save_options":[]}]})";
  ASSERT_THAT(json, HasSubstr(whole));
  json.erase(json.find(whole), whole.size());
  EXPECT_THAT(json, Not(HasSubstr("save_options")));  // of the stages, which have none
}

// An answer without warnings is what it was before there were any.
TEST(ToJson, PrintsWarningsOnlyWhereThereAre) {
  Answer answer;
  answer.minimum_memory_bytes = 7;
  SolveResult result{std::make_shared<const Answer>(answer), {}, {}};
  EXPECT_THAT(ToJson(ToMessage(result, Memory(5))), Not(HasSubstr("warnings")));
  result.warnings = {{"chain.stages[1].backward_seconds", "BACKWARD_LONG", "is \"warnings\": []"}};
  const std::string json = ToJson(ToMessage(result, Memory(5)));
  EXPECT_THAT(json, HasSubstr("\"reason\": \"BACKWARD_LONG\""));
  v1::SolveResponse read;
  ASSERT_THAT(FromJson(json, "answer", &read), IsOk());
  EXPECT_EQ(FromMessage(read)->warnings, result.warnings);
}

// solver/json/print_json.h writes what protobuf would.
TEST(ToJson, WritesAllProfilesAsTheModelDoes) {
  for (const std::string& name : AllProfiles()) {
    const Chain chain = LoadProfile(name);
    EXPECT_EQ(ToJson(chain), ToJson(ToMessage(chain))) << name;
  }
}

TEST(ToJson, WritesEveryFieldAsTheModelDoes) {
  Chain chain = EqualChain(3);
  for (int c = 1; c < 0x80; ++c) chain.name += static_cast<char>(c);
  chain.name += "\u00e9\u65e5\u672c\U0001F600\u200b\u2028\ufeff\U0001D173\U000E0001\U000E0020";
  chain.input_bytes = INT64_MAX;
  chain.input_gradient_bytes = INT64_MIN;
  chain.stages[1] = {"conv", 1, 2, 3, 4, 5, 6, 7, true, true};
  chain.stages[1].graph = GraphCosts{15, 16, 17, 18, 19};
  chain.stages[1].fusion_group = "group";
  chain.stages[1].control_flow = true;
  chain.stages[1].input_unread = true;
  chain.stages[2].replay_seconds = 0;
  chain.stages[2].save_overhead_bytes = 0;
  chain.stages[1].save_options = {{"\"save_options\": []", 20, 21, 22}, {"", 23, 24, 25, 26}};
  chain.loss = {"loss", 8, 9, 10, 11, {}, 12, 13, false, true};
  chain.graph_entry_seconds = 14;
  EXPECT_EQ(ToJson(chain), ToJson(ToMessage(chain)));
  EXPECT_EQ(ToJson(Chain()), ToJson(ToMessage(Chain())));
}

TEST(ToJson, WritesNumbersAsTheModelDoes) {
  std::vector<double> numbers = {0,       -0.0,    0.1,      1.0 / 3,   0.1 + 0.2, 1e15, 1e16,
                                 1e17,    123456., 1e-4,     1e-5,      1e21,      1e22, DBL_MAX,
                                 DBL_MIN, 5e-324,  INFINITY, -INFINITY, NAN};
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    numbers.push_back(std::bit_cast<double>(random()));
    numbers.push_back(std::uniform_real_distribution<double>(0, 10)(random));
  }
  Chain chain = EqualChain(1);
  for (const double number : numbers) {
    chain.stages[0].forward_seconds = number;
    ASSERT_EQ(ToJson(chain), ToJson(ToMessage(chain))) << absl::StrFormat("%.17g", number);
  }
}

TEST(Convert, KeepsEveryFieldOfAChainAndAPlatform) {
  Chain chain = EqualChain(2);
  chain.name = "net";
  chain.input_gradient_bytes = 0;
  Stage& stage = chain.stages[0];
  stage = {"conv", 1, 2, 3, 4, 5, 6, 7, true, true};
  chain.loss = {"loss", 8, 9, 10, 11, {}, 12, 13, false, true};
  chain.graph_entry_seconds = 14;
  chain.stages[1].graph = GraphCosts{15, 16, 17, 18, 19};
  chain.stages[1].fusion_group = "group";
  chain.stages[1].control_flow = true;
  chain.stages[0].replay_seconds = 0;
  chain.stages[1].input_unread = true;
  chain.stages[0].save_overhead_bytes = 0;
  chain.stages[1].save_options = {{"norms", 20, 21, 22}, {"", 23, 24, 25, 26}};
  EXPECT_EQ(FromMessage(ToMessage(chain)), chain);
  const Platform platform = {"gpu", 1, 2, 3, 4, true, 5};
  EXPECT_EQ(FromMessage(ToMessage(platform)), platform);
  EXPECT_EQ(FromMessage(ToMessage(Memory(7))), Memory(7));
}

TEST(Convert, KeepsWhyAnAnswerMayNotBeOptimal) {
  for (const Guarantee guarantee :
       {Guarantee::kOptimal, Guarantee::kHeuristic, Guarantee::kUpToRounding,
        Guarantee::kTimeRanOut, Guarantee::kBestOfClass}) {
    Answer answer;
    answer.outcome = OutcomeOf(guarantee);
    answer.guarantee = guarantee;
    const auto result =
        FromMessage(ToMessage({std::make_shared<const Answer>(answer), {}}, Memory(7)));
    ASSERT_THAT(result, IsOk()) << static_cast<int>(guarantee);
    EXPECT_EQ(result->answer->guarantee, guarantee);
  }
}

TEST(Convert, KeepsEveryKindOfOperation) {
  const Schedule schedule = Ops("S1 C2 D3 B4 O5 R6 P7 X8 gS8 gB9-11 S2:1 X3:5");
  std::vector<FieldViolation> violations;
  EXPECT_EQ(FromMessage(ToMessage(schedule), &violations), schedule);
  EXPECT_TRUE(violations.empty());
}

TEST(Convert, ReportsOperationsOfNoKind) {
  v1::Schedule schedule = ToMessage(Ops("S1 B1"));
  schedule.mutable_operations(1)->set_kind(static_cast<v1::Operation::Kind>(99));
  std::vector<FieldViolation> violations;
  FromMessage(schedule, &violations);
  ASSERT_EQ(violations.size(), 1);
  EXPECT_EQ(violations[0].field, "schedule.operations[1].kind");
}

TEST(Convert, ReportsOperationsOfNoMode) {
  v1::Schedule schedule = ToMessage(Ops("S1 B1"));
  schedule.mutable_operations(1)->set_mode(static_cast<v1::Operation::Mode>(7));
  std::vector<FieldViolation> violations;
  FromMessage(schedule, &violations);
  ASSERT_EQ(violations.size(), 1);
  EXPECT_EQ(violations[0].field, "schedule.operations[1].mode");
}

TEST(Convert, MissesMemoryThatIsNotGiven) {
  v1::SolveRequest request;
  std::vector<FieldViolation> violations;
  EXPECT_EQ(FromMessage(request, &violations).options.time_precision, kDefaultTimePrecision);
  ASSERT_EQ(violations.size(), 1);
  EXPECT_EQ(violations[0].field, "platform.memory_bytes");
}

TEST(Convert, BelievesNoVerdictThatContradictsItself) {
  v1::AdmitResponse response;
  v1::Verdict& verdict = *response.add_verdicts();
  verdict.set_fit(v1::Verdict::FITS);
  EXPECT_THAT(FromMessage(response), IsOk());
  verdict.set_fit(v1::Verdict::FITS_WITH_PLAN);
  EXPECT_THAT(FromMessage(response), Fails(absl::StatusCode::kDataLoss, HasSubstr("plan")));
  verdict.set_fit(static_cast<v1::Verdict::Fit>(9));
  EXPECT_THAT(FromMessage(response), Fails(absl::StatusCode::kDataLoss, HasSubstr("fit")));
}

}  // namespace
}  // namespace stowage
