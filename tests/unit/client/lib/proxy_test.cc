#include "client/lib/proxy.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace stowage {
namespace {

using Variables = std::map<std::string, std::string>;

// "http_proxy proxy:1"; empty: none.
std::string ProxyFor(const std::string& server, const Variables& variables) {
  const auto proxy = ProxyOf(server, [&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  return proxy.has_value() ? proxy->variable + " " + proxy->address : "";
}

TEST(ProxyOf, IsThatOfTheFirstVariableThatIsSet) {
  Variables variables;
  EXPECT_EQ(ProxyFor("one.example:1", variables), "");
  variables["http_proxy"] = "http://a:1";
  EXPECT_EQ(ProxyFor("one.example:1", variables), "http_proxy a:1");
  variables["https_proxy"] = "http://b:1/";
  EXPECT_EQ(ProxyFor("one.example:1", variables), "https_proxy b:1");
  variables["grpc_proxy"] = "http://c:1";
  EXPECT_EQ(ProxyFor("one.example:1", variables), "grpc_proxy c:1");
  variables["grpc_proxy"] = "";  // none, whatever the others say
  EXPECT_EQ(ProxyFor("one.example:1", variables), "");
  variables["grpc_proxy"] = "socks5://c:1";  // gRPC does not speak that, and connects directly
  EXPECT_EQ(ProxyFor("one.example:1", variables), "");
}

TEST(ProxyOf, KeepsUserAndPasswordToItself) {
  EXPECT_EQ(ProxyFor("one.example:1", {{"http_proxy", "http://me:p@ss@a:1/"}}), "http_proxy a:1");
}

TEST(ProxyOf, IsNoneWhereNoProxyNamesTheHost) {
  const Variables variables = {{"http_proxy", "http://a:1"}, {"no_proxy", "x, .Example,10.0.0.7"}};
  EXPECT_EQ(ProxyFor("one.example:1", variables), "");
  EXPECT_EQ(ProxyFor("10.0.0.7:1", variables), "");
  EXPECT_EQ(ProxyFor("one.example.org:1", variables), "http_proxy a:1");
  Variables grpc = variables;
  grpc["no_grpc_proxy"] = "";  // goes before no_proxy
  EXPECT_EQ(ProxyFor("one.example:1", grpc), "http_proxy a:1");
}

TEST(ProxyOf, IsNoneToThisMachine) {
  const Variables variables = {{"grpc_proxy", "http://a:1"}};
  for (const char* server : {"127.0.0.1:1", "127.1.2.3:1", "localhost:1", "[::1]:1", "unix:/s"}) {
    EXPECT_EQ(ProxyFor(server, variables), "") << server;
  }
}

}  // namespace
}  // namespace stowage
