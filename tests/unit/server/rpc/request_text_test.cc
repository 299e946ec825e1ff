#include "server/rpc/request_text.h"

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

// A field of a message in bytes.
std::string Field(const std::string& tag, const std::string& payload) {
  EXPECT_LT(payload.size(), 128);
  return tag + static_cast<char>(payload.size()) + payload;
}

TEST(RequestText, LeavesProvenanceOut) {
  v1::SolveRequest annotated = Request(3);
  auto& fields = *annotated.mutable_chain()->mutable_provenance()->mutable_fields();
  for (const char* key : {"a", "b", "c", "d"}) fields[key].set_string_value("x");
  EXPECT_EQ(RequestText(annotated.SerializeAsString()),
            RequestText(Request(3).SerializeAsString()));
  EXPECT_NE(RequestText(Request(4).SerializeAsString()),
            RequestText(Request(3).SerializeAsString()));
}

TEST(RequestText, ContainsEveryOtherField) {
  v1::SolveRequest request = Request(3);
  const std::string plain = RequestText(request.SerializeAsString());
  request.set_solver("rotor");
  const std::string with_solver = RequestText(request.SerializeAsString());
  EXPECT_NE(with_solver, plain);
  request.mutable_options()->set_use_cache(false);
  EXPECT_NE(RequestText(request.SerializeAsString()), with_solver);
}

// Field 1 with a tag of two bytes, and field 17, whose tag has two and begins alike.
TEST(RequestText, TellsFieldsWithTagsThatBeginAlikeApart) {
  const std::string first("\x8a\x00", 2);
  const std::string seventeenth("\x8a\x01", 2);
  const std::string stage = Field("\x1a", "");
  EXPECT_NE(RequestText(Field(first, stage)), RequestText(Field(seventeenth, stage)));
  EXPECT_NE(RequestText(Field(first, stage)), RequestText(Field(first, stage + stage)));
  // One chain in two pieces is not one in one: they may be merged otherwise than they are written.
  EXPECT_NE(RequestText(Field("\x0a", stage) + Field("\x0a", stage)),
            RequestText(Field("\x0a", stage + stage)));
}

TEST(RequestText, IsEmptyForBytesThatAreNoMessage) {
  const std::string whole = Request(3).SerializeAsString();
  EXPECT_EQ(RequestText(whole.substr(0, whole.size() - 1)), "");
  EXPECT_EQ(RequestText("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "");
  EXPECT_EQ(RequestText(Field("\x0a", "\x1a\x7f")), "");
}

}  // namespace
}  // namespace stowage
