#include "client/lib/rpc/proxy.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/support/rules.h"

namespace stowage {
namespace {

TEST(ProxyOf, FollowsTheSharedRules) {
  for (const nlohmann::json& rule : RuleCases("proxies")) {
    const auto variables = rule.at("variables").get<std::map<std::string, std::string>>();
    const auto proxy =
        ProxyOf(rule.at("server").get<std::string>(), [&variables](const char* name) {
          const auto found = variables.find(name);
          return found == variables.end() ? nullptr : found->second.c_str();
        });
    ASSERT_EQ(proxy.has_value(), !rule.at("variable").is_null()) << rule;
    if (!proxy.has_value()) continue;
    EXPECT_EQ(proxy->variable, rule.at("variable")) << rule;
    EXPECT_EQ(proxy->address, rule.at("address")) << rule;
  }
}

}  // namespace
}  // namespace stowage
