#include "server/rpc/messages/message_limits.h"

#include <gtest/gtest.h>

#include <string>

#include "stowage/v1/scheduler.pb.h"

namespace stowage {
namespace {

int Count(const v1::SimulateRequest& request) {
  return CountMessages(request.SerializeAsString(), *v1::SimulateRequest::descriptor());
}

TEST(CountMessages, CountsThoseWithoutBytesOfTheirOwn) {
  v1::SimulateRequest request;
  EXPECT_EQ(Count(request), 0);
  for (int i = 0; i < 1000; ++i) request.mutable_chain()->add_stages();
  EXPECT_EQ(Count(request), 1001) << "with the chain";
}

TEST(CountMessages, LeavesOperationsToWhoeverSimulatesThem) {
  v1::SimulateRequest request;
  for (int i = 0; i < 1000; ++i) request.mutable_schedule()->add_operations()->set_stage(1);
  EXPECT_EQ(Count(request), 1) << "the schedule";
}

TEST(CountMessages, CountsAsFarAsTheBytesAreAMessage) {
  v1::SimulateRequest request;
  for (int i = 0; i < 10; ++i) request.mutable_chain()->add_stages()->set_name("stage");
  const std::string bytes = request.SerializeAsString();
  EXPECT_GT(CountMessages(bytes.substr(0, bytes.size() - 1), *request.GetDescriptor()), 5);
  EXPECT_EQ(CountMessages("\xff\xff\xff", *request.GetDescriptor()), 0);
}

}  // namespace
}  // namespace stowage
