#include "client/lib/rpc/routing_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

namespace stowage::routing_key_test {
namespace {

v1::SolveRequest Request() {
  v1::SolveRequest request;
  for (int i = 0; i < 3; ++i) {
    v1::Stage& stage = *request.mutable_chain()->add_stages();
    stage.set_forward_seconds(1 + i);
    stage.set_output_bytes(1000);
    stage.set_saved_bytes(2000);
  }
  request.mutable_chain()->mutable_loss()->set_forward_seconds(0.5);
  request.mutable_platform()->set_memory_bytes(5000);
  request.set_solver("auto");
  return request;
}

v1::FrontierRequest FrontierOf(const v1::SolveRequest& request) {
  v1::FrontierRequest frontier;
  *frontier.mutable_chain() = request.chain();
  *frontier.mutable_platform() = request.platform();
  return frontier;
}

TEST(RoutingKey, IsTheSameForRequestsThatDifferInNamesOnly) {
  v1::SolveRequest named = Request();
  named.mutable_chain()->set_name("job 17");
  named.mutable_chain()->mutable_stages(1)->set_name("conv");
  named.mutable_chain()->mutable_loss()->set_name("loss");
  (*named.mutable_chain()->mutable_provenance()->mutable_fields())["host"].set_string_value("a");
  named.mutable_platform()->set_name("H100");
  EXPECT_EQ(RoutingKey(named), RoutingKey(Request()));
  EXPECT_EQ(RoutingKey(FrontierOf(named)), RoutingKey(FrontierOf(Request())));
}

TEST(RoutingKey, IsTheSameForOptionsThatChangeNoAnswer) {
  v1::SolveRequest plain = Request();
  plain.mutable_options()->set_memory_slots(100);
  v1::SolveRequest patient = plain;
  patient.mutable_options()->set_time_budget_seconds(3);
  patient.mutable_options()->set_use_cache(false);
  EXPECT_EQ(RoutingKey(patient), RoutingKey(plain));
  v1::SolveRequest unnamed = plain;
  unnamed.clear_solver();  // "auto"
  EXPECT_EQ(RoutingKey(unnamed), RoutingKey(plain));
}

TEST(RoutingKey, DiffersWithWhatChangesTheAnswer) {
  const std::vector<std::function<void(v1::SolveRequest&)>> changes = {
      [](v1::SolveRequest&) {},
      [](v1::SolveRequest& to) { to.mutable_platform()->set_memory_bytes(5001); },
      [](v1::SolveRequest& to) { to.mutable_platform()->set_offload_bytes_per_second(1e9); },
      [](v1::SolveRequest& to) { to.mutable_chain()->mutable_stages(0)->set_saved_bytes(2001); },
      [](v1::SolveRequest& to) { to.mutable_chain()->mutable_loss()->set_forward_seconds(0.6); },
      [](v1::SolveRequest& to) { to.mutable_chain()->mutable_stages()->RemoveLast(); },
      [](v1::SolveRequest& to) { to.set_solver("rotor"); },
      [](v1::SolveRequest& to) { to.mutable_options()->set_memory_slots(100); },
  };
  std::set<std::string> keys;
  for (const auto& change : changes) {
    v1::SolveRequest request = Request();
    change(request);
    keys.insert(RoutingKey(request));
  }
  EXPECT_EQ(keys.size(), changes.size());
  v1::FrontierRequest frontier = FrontierOf(Request());
  frontier.set_points(20);
  keys.insert(RoutingKey(frontier));
  frontier.add_memory_bytes(7000);
  keys.insert(RoutingKey(frontier));
  EXPECT_EQ(keys.size(), changes.size() + 2);
}

// Balancers and clients of different versions agree on it.
TEST(RoutingKey, IsStable) {
  EXPECT_EQ(RoutingKey(v1::SolveRequest()), "cbf29ce484222325");
  v1::SolveRequest request;
  request.set_solver("a");  // 1a 01 61
  EXPECT_EQ(RoutingKey(request), "ba7fcb18eb9b887f");
}

}  // namespace
}  // namespace stowage::routing_key_test
