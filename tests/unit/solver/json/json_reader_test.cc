#include "solver/json/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "solver/json/json_text.h"
#include "solver/json/json_writer.h"
#include "tests/support/chains.h"
#include "tests/support/profiles.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

template <typename Message>
std::string Written(const Message& message) {
  JsonObject object;
  VisitFields(object, message);
  return object.Take().dump();
}

template <typename Message>
std::vector<FieldViolation> Read(const std::string& text, Message* message) {
  std::vector<FieldViolation> violations;
  absl::string_view checked = text;
  EXPECT_THAT(CheckJsonText("chain", &checked), IsOk());
  JsonReader(&violations).Read(JsonPath{nullptr, "chain"}, nlohmann::json::parse(text), message);
  return violations;
}

// What is wrong with a chain of one stage that has this field.
std::vector<FieldViolation> OfStage(const std::string& field) {
  Chain chain;
  return Read(R"({"stages": [{"name": "a"}, {)" + field + "}]}", &chain);
}

template <typename Message>
void ExpectRoundTrip(const Message& message) {
  Message read;
  RC_ASSERT(Read(Written(message), &read).empty());
  RC_ASSERT(read == message);
}

RC_GTEST_PROP(JsonReader, ReadsChainsAsTheyWereWritten, ()) {
  ExpectRoundTrip(*SmallOptionChains(4));
  ExpectRoundTrip(*SmallModeChains(4));
}

TEST(JsonReader, ReadsRealChainsAsTheyWereWritten) {
  for (const std::string& name : AllProfiles()) {
    const Chain chain = LoadProfile(name);
    Chain read;
    EXPECT_THAT(Read(Written(chain), &read), IsEmpty()) << name;
    EXPECT_EQ(read, chain) << name;
  }
}

TEST(JsonReader, ReadsSchedulesAsTheyWereWritten) {
  const Schedule schedule = Ops("S1 gS2-4 C5 X6 S7:2 O1 R1 P1 B7");
  Schedule read;
  EXPECT_THAT(Read(Written(schedule), &read), IsEmpty());
  EXPECT_EQ(read, schedule);
}

TEST(JsonReader, ReadsNumbersAsProtobufMapsThem) {
  Chain chain;
  EXPECT_THAT(Read(R"({"inputBytes": "9223372036854775807", "inputGradientBytes": 1e3,
                       "graph_entry_seconds": "NaN", "provenance": {"any": [null]},
                       "stages": [{"forward_seconds": "Infinity", "backwardSeconds": "1.5",
                                   "name": null}]})",
                   &chain),
              IsEmpty());
  EXPECT_EQ(chain.input_bytes, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(chain.input_gradient_bytes, 1000);
  EXPECT_TRUE(std::isnan(chain.graph_entry_seconds));
  EXPECT_TRUE(std::isinf(chain.stages[0].forward_seconds));
  EXPECT_EQ(chain.stages[0].backward_seconds, 1.5);
}

TEST(JsonReader, NamesTheFieldAndWhatItMayBe) {
  constexpr const char* kWhole = " is not a whole number from -2^63 to below 2^63";
  const std::vector<std::pair<std::string, FieldViolation>> cases = {
      {R"("forward_secnds": 1)", {"forward_secnds", "unknown field"}},
      {R"("forward_seconds": "a")", {"forward_seconds", "\"a\" is not a number"}},
      {R"("forward_seconds": " 1")", {"forward_seconds", "\" 1\" is not a number"}},
      {R"("forward_seconds": true)", {"forward_seconds", "true is not a number"}},
      {R"("forward_seconds": "0x10")", {"forward_seconds", "\"0x10\" is not a number"}},
      {R"("output_bytes": 1.5)", {"output_bytes", std::string("1.5") + kWhole}},
      {R"("output_bytes": "0x10")", {"output_bytes", std::string("\"0x10\"") + kWhole}},
      {R"("output_bytes": 9223372036854775808)",
       {"output_bytes", std::string("9223372036854775808") + kWhole}},
      {R"("output_bytes": [])", {"output_bytes", std::string("an array") + kWhole}},
      {R"("name": 3)", {"name", "3 is not a string"}},
      {R"("no_offload": 1)", {"no_offload", "1 is not true or false"}},
      {R"("save_options": {})", {"save_options", "an object is not an array"}},
      {R"("save_options": [{}, 3])", {"save_options[1]", "3 is not an object"}},
      {R"("graph": [])", {"graph", "an array is not an object"}},
  };
  for (const auto& [text, expected] : cases) {
    const FieldViolation violation{"chain.stages[1]." + expected.field, expected.problem};
    EXPECT_THAT(OfStage(text), ElementsAre(violation)) << text;
  }
}

TEST(JsonReader, NamesEveryFieldThatIsWrong) {
  EXPECT_THAT(OfStage(R"("name": 3, "x": 1, "saved_bytes": "many")"), SizeIs(3));
  std::string stages = "{\"x\": 1}";
  for (int i = 0; i < 200; ++i) stages += ", {\"x\": 1}";
  Chain chain;
  EXPECT_THAT(Read("{\"stages\": [" + stages + "]}", &chain), SizeIs(101))
      << "the first ones, and how many more";
}

TEST(JsonReader, AsksForTheKindOfAnOperation) {
  Schedule schedule;
  EXPECT_THAT(
      Read(R"({"operations": [{"stage": 1}]})", &schedule),
      ElementsAre(FieldViolation{"chain.operations[0].kind", "is missing; set e.g. FORWARD_SAVE"}));
  EXPECT_THAT(
      Read(R"({"operations": [{"kind": "FORWARD", "stage": 1}]})", &schedule),
      ElementsAre(FieldViolation{"chain.operations[0].kind",
                                 "\"FORWARD\" is not a kind of operation, such as FORWARD_SAVE"}));
}

TEST(JsonReader, RefusesAFieldInTwoSpellings) {
  EXPECT_THAT(OfStage(R"("saved_bytes": 1, "savedBytes": 2)"),
              ElementsAre(FieldViolation{"chain.stages[1].saved_bytes",
                                         "is given twice, in two spellings"}));
  EXPECT_THAT(OfStage(R"("saved_Bytes": 1)"),
              ElementsAre(FieldViolation{"chain.stages[1].saved_Bytes", "unknown field"}));
}

TEST(CheckJsonText, NamesTheFieldInWhichTheTextIsNotJson) {
  const auto check = [](absl::string_view text) { return CheckJsonText("chain", &text); };
  const auto fails = [](const char* words) {
    return Fails(absl::StatusCode::kInvalidArgument, HasSubstr(words));
  };
  EXPECT_THAT(check(R"({"stages": [{"name": nul)"),
              fails("chain.stages[0].name: line 1, column 25: not JSON: "));
  EXPECT_THAT(check(R"({"name": "a", "name": "b"})"), fails("chain.name: is given twice"));
  EXPECT_THAT(check("\xFF\xFE{"), fails("chain: is UTF-16; convert it to UTF-8"));
  EXPECT_THAT(check(std::string(1000, '[')), fails("chain: is an array"));
  EXPECT_THAT(check(R"({"stages": [null]})"), fails("chain.stages[0]: is null, not an object"));
  EXPECT_THAT(check(absl::string_view("{}\0{}", 5)), fails("chain: not JSON: byte 2 is null"));
  EXPECT_THAT(check("\xEF\xBB\xBF\xEF\xBB\xBF{}"), fails("chain: begins with two byte order"));
  EXPECT_THAT(check("\xEF\xBB\xBF{}"), IsOk()) << "a byte order mark";
}

TEST(JsonTextViolation, TellsTheFieldFromTheProblem) {
  const auto wrong = [](absl::string_view text) { return *JsonTextViolation("", &text); };
  EXPECT_EQ(wrong(R"({"a: b": {"x": 1, "x": 2}})"), (FieldViolation{"a: b.x", "is given twice"}));
  EXPECT_EQ(wrong("3"), (FieldViolation{"request", "is not a JSON object"}));
}

}  // namespace
}  // namespace stowage
