#include "server/rpc/messages/shared_response.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "stowage/v1/scheduler.pb.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

std::string Bytes(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  EXPECT_TRUE(buffer.DumpToSingleSlice(&slice).ok());
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

// With fields on both sides of the origin.
v1::SolveResponse Response() {
  v1::SolveResponse response;
  response.set_outcome(v1::FEASIBLE);
  response.mutable_schedule()->add_operations()->set_stage(7);
  response.set_minimum_memory_bytes(0);
  response.mutable_platform()->set_memory_bytes(1000);
  response.mutable_explanation()->add_notes("a note");
  response.mutable_explanation()->add_stages()->set_stage(1);
  response.add_warnings()->set_field("chain.stages[1]");
  response.mutable_exported()->set_text("--a-setting");
  return response;
}

absl::StatusOr<SharedResponsePtr> Share(const v1::SolveResponse& response,
                                        const std::string& client = "job") {
  return SharedResponse::Make([&](v1::SolveResponse* message) { *message = response; }, client);
}

TEST(SharedResponse, IsTheResponseWithEachOriginToTheByte) {
  v1::SolveResponse response = Response();
  response.mutable_origin()->set_solver("of nobody");
  const absl::StatusOr<SharedResponsePtr> shared = Share(response);
  ASSERT_THAT(shared, IsOk());
  for (const double seconds : {0.0, 0.25, 1e9}) {
    v1::Origin& origin = *response.mutable_origin();
    origin.set_solver("rotor");
    origin.set_queue_seconds(seconds);
    EXPECT_EQ(Bytes((*shared)->With(origin)), response.SerializeAsString());
  }
}

TEST(SharedResponse, MayHaveNothingBesideTheOrigin) {
  const absl::StatusOr<SharedResponsePtr> shared = Share(v1::SolveResponse());
  ASSERT_THAT(shared, IsOk());
  v1::SolveResponse response;
  response.mutable_origin()->set_solver("rotor");
  EXPECT_EQ(Bytes((*shared)->With(response.origin())), response.SerializeAsString());
}

// The bytes may not be freed, nor cease to count, before the last call has sent them.
TEST(SharedResponse, LivesAndCountsAsLongAsItsSlices) {
  v1::SolveResponse large;
  large.mutable_explanation()->add_notes(std::string(20 << 20, 'x'));  // of two a client's share
  absl::StatusOr<SharedResponsePtr> shared = Share(large);
  ASSERT_THAT(shared, IsOk());
  std::weak_ptr<const SharedResponse> lives = *shared;
  std::vector<grpc::ByteBuffer> unread(1000, (*shared)->With(v1::Origin()));
  *shared = nullptr;
  EXPECT_FALSE(lives.expired());
  EXPECT_EQ(Share(large).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Share(large, "another"), IsOk()) << "the first has had its own share alone";
  unread.clear();
  EXPECT_TRUE(lives.expired());
  EXPECT_THAT(Share(large), IsOk());
}

}  // namespace
}  // namespace stowage
