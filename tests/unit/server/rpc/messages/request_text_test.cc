#include "server/rpc/messages/request_text.h"

#include <gtest/gtest.h>

#include <string>

#include "proto/convert/chain_message.h"
#include "stowage/v1/scheduler.pb.h"
#include "tests/support/chains.h"

namespace stowage {
namespace {

v1::SolveRequest Request(int stages) {
  v1::SolveRequest request;
  *request.mutable_chain() = ToMessage(EqualChain(stages));
  request.mutable_platform()->set_memory_bytes(1000);
  return request;
}

std::string Text(const std::string& request) {
  std::string storage;
  return std::string(RequestText(request, &storage));
}

// A field of a message in bytes.
std::string Field(const std::string& tag, const std::string& payload) {
  EXPECT_LT(payload.size(), 128);
  return tag + static_cast<char>(payload.size()) + payload;
}

TEST(RequestText, LeavesProvenanceOut) {
  v1::SolveRequest annotated = Request(3);
  auto& fields = *annotated.mutable_chain()->mutable_provenance()->mutable_fields();
  for (const char* key : {"a", "b", "c", "d"}) fields[key].set_string_value("x");
  EXPECT_EQ(Text(annotated.SerializeAsString()), Text(Request(3).SerializeAsString()));
  EXPECT_NE(Text(Request(4).SerializeAsString()), Text(Request(3).SerializeAsString()));
}

TEST(RequestText, LeavesProvenanceOutWhereverItIs) {
  const std::string stage = Field("\x22", "\x08\x01");
  const std::string provenance = Field("\x32", Field("\x0a", ""));
  const std::string rest = Field("\x12", "");
  EXPECT_EQ(Text(Field("\x0a", provenance + stage + provenance + stage + provenance) + rest),
            Field("\x0a", stage + stage) + rest);
  EXPECT_EQ(Text(rest + Field("\x0a", provenance) + rest + Field("\x0a", provenance + stage)),
            rest + Field("\x0a", "") + rest + Field("\x0a", stage));
}

// Eight bytes with the chain's number that read like provenance.
TEST(RequestText, TakesNothingOutOfAFieldThatIsNoMessage) {
  const std::string request =
      "\x09\x32\x06"
      "abcdef";
  EXPECT_EQ(Text(request), request);
}

TEST(RequestText, ContainsEveryOtherField) {
  v1::SolveRequest request = Request(3);
  const std::string plain = Text(request.SerializeAsString());
  request.set_solver("rotor");
  const std::string with_solver = Text(request.SerializeAsString());
  EXPECT_NE(with_solver, plain);
  request.mutable_options()->set_use_cache(false);
  EXPECT_NE(Text(request.SerializeAsString()), with_solver);
}

// Field 1 with a tag of two bytes, and field 17, whose tag has two and begins alike.
TEST(RequestText, TellsFieldsWithTagsThatBeginAlikeApart) {
  const std::string first("\x8a\x00", 2);
  const std::string seventeenth("\x8a\x01", 2);
  const std::string stage = Field("\x1a", "");
  EXPECT_NE(Text(Field(first, stage)), Text(Field(seventeenth, stage)));
  EXPECT_NE(Text(Field(first, stage)), Text(Field(first, stage + stage)));
  // One chain in two pieces is not one in one: they may be merged otherwise than they are written.
  EXPECT_NE(Text(Field("\x0a", stage) + Field("\x0a", stage)), Text(Field("\x0a", stage + stage)));
}

TEST(RequestText, IsTheRequestItselfWithoutProvenance) {
  const std::string request = Request(10'000).SerializeAsString();
  std::string storage;
  EXPECT_EQ(RequestText(request, &storage).data(), request.data());
  const std::string empty_stages = Field("\x0a", std::string("\x22\0\x22\0", 4));
  EXPECT_EQ(RequestText(empty_stages, &storage), empty_stages);
}

TEST(RequestText, IsEmptyForBytesThatAreNoMessage) {
  const std::string whole = Request(3).SerializeAsString();
  EXPECT_EQ(Text(whole.substr(0, whole.size() - 1)), "");
  EXPECT_EQ(Text("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "");
  EXPECT_EQ(Text(Field("\x0a", "\x1a\x7f")), "");
}

}  // namespace
}  // namespace stowage
