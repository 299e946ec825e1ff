#include "server/rpc/replies.h"

#include <gtest/gtest.h>

#include <string>

#include "proto/convert/chain_message.h"
#include "stowage/v1/scheduler.pb.h"
#include "tests/support/chains.h"

namespace stowage {
namespace {

std::string Words(const std::string& bytes) { return WordsOf(grpc::Slice(bytes)); }

v1::SolveRequest Question(int stages) {
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

TEST(WordsOf, LeaveProvenanceOut) {
  v1::SolveRequest annotated = Question(3);
  auto& fields = *annotated.mutable_chain()->mutable_provenance()->mutable_fields();
  for (const char* key : {"a", "b", "c", "d"}) fields[key].set_string_value("x");
  EXPECT_EQ(Words(annotated.SerializeAsString()), Words(Question(3).SerializeAsString()));
  EXPECT_NE(Words(Question(4).SerializeAsString()), Words(Question(3).SerializeAsString()));
}

TEST(WordsOf, AreThoseOfAnyFieldThatIsNotTheChains) {
  v1::SolveRequest request = Question(3);
  const std::string plain = Words(request.SerializeAsString());
  request.set_solver("rotor");
  const std::string with_solver = Words(request.SerializeAsString());
  EXPECT_NE(with_solver, plain);
  request.mutable_options()->set_use_cache(false);
  EXPECT_NE(Words(request.SerializeAsString()), with_solver);
}

// Field 1 with a tag of two bytes, and field 17, whose tag has two and begins alike.
TEST(WordsOf, AreNotThoseOfAFieldWhoseTagBeginsAlike) {
  const std::string first("\x8a\x00", 2);
  const std::string seventeenth("\x8a\x01", 2);
  const std::string stage = Field("\x1a", "");
  EXPECT_NE(Words(Field(first, stage)), Words(Field(seventeenth, stage)));
  EXPECT_NE(Words(Field(first, stage)), Words(Field(first, stage + stage)));
  // One chain in two pieces is not one in one: they may be merged otherwise than they are written.
  EXPECT_NE(Words(Field("\x0a", stage) + Field("\x0a", stage)),
            Words(Field("\x0a", stage + stage)));
}

TEST(WordsOf, AreNoneOfWhatIsNoMessage) {
  const std::string whole = Question(3).SerializeAsString();
  EXPECT_EQ(Words(whole.substr(0, whole.size() - 1)), "");
  EXPECT_EQ(Words("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "");
  EXPECT_EQ(Words(Field("\x0a", "\x1a\x7f")), "");
}

}  // namespace
}  // namespace stowage
