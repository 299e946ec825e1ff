#include "server/rpc/callers/caller_address.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stowage {
namespace {

std::string NameOf(absl::string_view text) {
  const absl::optional<IpAddress> address = ParseIp(text);
  return address.has_value() ? HostName(*address) : "none";
}

TrustedProxies Trusted(const std::vector<std::string>& ranges) {
  return TrustedProxies::Parse(ranges).value();
}

TEST(CallerAddress, ReadsAddressesWithAndWithoutPorts) {
  EXPECT_EQ(NameOf("10.0.0.7"), "10.0.0.7");
  EXPECT_EQ(NameOf("10.0.0.7:4711"), "10.0.0.7");
  EXPECT_EQ(NameOf("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(NameOf("[2001:db8:1:2::6]:4711"), "2001:db8:1:2::/64");
  EXPECT_EQ(NameOf("[fe80::1%eth0]:4711"), "fe80::/64");
  EXPECT_EQ(NameOf("::ffff:10.0.0.7"), "10.0.0.7");  // as a socket for both families has it
  for (const char* bad : {"", "localhost", "10.0.0", "10.0.0.7.8", "300.1.1.1", "a:b:c"}) {
    EXPECT_EQ(NameOf(bad), "none") << bad;
  }
}

TEST(AddressRange, ContainsTheAddressesWithItsPrefix) {
  const auto contains = [](const char* range, const char* address) {
    return AddressRange::Parse(range).value().Contains(*ParseIp(address));
  };
  EXPECT_TRUE(contains("10.0.0.0/8", "10.255.0.1"));
  EXPECT_FALSE(contains("10.0.0.0/8", "11.0.0.1"));
  EXPECT_TRUE(contains("192.168.4.0/22", "192.168.7.255"));
  EXPECT_FALSE(contains("192.168.4.0/22", "192.168.8.0"));
  EXPECT_TRUE(contains("10.0.0.7", "10.0.0.7"));
  EXPECT_FALSE(contains("10.0.0.7", "10.0.0.6"));
  EXPECT_TRUE(contains("0.0.0.0/0", "1.2.3.4"));
  EXPECT_FALSE(contains("0.0.0.0/0", "2001:db8::1"));
  EXPECT_TRUE(contains("2001:db8::/33", "2001:db8:7fff::1"));
  EXPECT_FALSE(contains("2001:db8::/33", "2001:db8:8000::1"));
  EXPECT_TRUE(contains("::/0", "1.2.3.4"));
}

TEST(TrustedProxies, NamesRangesThatHoldMoreThanProxies) {
  EXPECT_THAT(
      Trusted({"10.0.0.0/8", "10.0.0.0/23", "2001:db8::/63", "::/0", "0.0.0.0/0"}).wide_ranges(),
      testing::ElementsAre("10.0.0.0/8", "10.0.0.0/23", "2001:db8::/63", "::/0", "0.0.0.0/0"));
  EXPECT_THAT(
      Trusted({"unix", "10.0.0.7", "10.0.0.0/24", "2001:db8::/64", "2001:db8::1"}).wide_ranges(),
      testing::IsEmpty());
}

TEST(AddressRange, RefusesWhatIsNone) {
  for (const char* bad : {"", "localhost", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "::/129",
                          "10.0.0.0/8/8", "10.0.0.7:80"}) {
    EXPECT_FALSE(AddressRange::Parse(bad).ok()) << bad;
  }
}

TEST(TrustedProxies, WithoutThemTheConnectionSaysWhoCalls) {
  const TrustedProxies none;
  EXPECT_EQ(none.CallerOf("ipv4:10.0.0.7:4711", {"1.2.3.4"}), "10.0.0.7");
  EXPECT_EQ(none.CallerOf("ipv6:%5B2001:db8::1%5D:4711", {}), "2001:db8::/64");
  EXPECT_EQ(none.CallerOf("ipv6:[2001:db8::1]:4711", {}), "2001:db8::/64");
  EXPECT_EQ(none.CallerOf("unix:/run/stowage.sock", {"1.2.3.4"}), "unix");
}

TEST(TrustedProxies, WhatAProxyForwardedCounts) {
  const TrustedProxies proxies = Trusted({"10.0.0.0/8", "unix"});
  EXPECT_EQ(proxies.CallerOf("ipv4:10.0.0.7:4711", {"1.2.3.4"}), "1.2.3.4");
  EXPECT_EQ(proxies.CallerOf("unix:", {"1.2.3.4"}), "1.2.3.4");
  EXPECT_EQ(proxies.CallerOf("ipv4:10.0.0.7:4711", {"[2001:db8::9]:80"}), "2001:db8::/64");
  EXPECT_EQ(proxies.CallerOf("ipv4:11.0.0.7:4711", {"1.2.3.4"}), "11.0.0.7");
}

// A caller may send the header itself; its proxy appends the caller's address behind it.
TEST(TrustedProxies, WhatACallerForgedDoesNot) {
  const TrustedProxies proxies = Trusted({"10.0.0.0/8"});
  EXPECT_EQ(proxies.CallerOf("ipv4:10.0.0.7:1", {"9.9.9.9, 1.2.3.4"}), "1.2.3.4");
  EXPECT_EQ(proxies.CallerOf("ipv4:10.0.0.7:1", {"9.9.9.9", "1.2.3.4"}), "1.2.3.4");
  EXPECT_EQ(proxies.CallerOf("ipv4:10.0.0.7:1", {"9.9.9.9, 1.2.3.4, 10.0.0.8"}), "1.2.3.4");
  EXPECT_EQ(proxies.CallerOf("ipv4:10.0.0.7:1", {"1.2.3.4, nonsense"}), "10.0.0.7");
  EXPECT_EQ(proxies.CallerOf("ipv4:10.0.0.7:1", {""}), "10.0.0.7");
  EXPECT_EQ(proxies.CallerOf("ipv4:10.0.0.7:1", {}), "10.0.0.7");
  EXPECT_EQ(proxies.CallerOf("ipv4:10.0.0.7:1", {"10.1.1.1, 10.0.0.9"}), "10.1.1.1");
}

}  // namespace
}  // namespace stowage
