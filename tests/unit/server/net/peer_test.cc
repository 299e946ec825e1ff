#include "server/net/peer.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <string>

namespace stowage {
namespace {

constexpr uint16_t kPort = 4711;

Peer PeerAt(const std::string& address) {
  sockaddr_storage storage{};
  auto& four = reinterpret_cast<sockaddr_in&>(storage);
  auto& six = reinterpret_cast<sockaddr_in6&>(storage);
  if (inet_pton(AF_INET, address.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(kPort);
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, address.c_str(), &six.sin6_addr), 1) << address;
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(kPort);
  }
  return PeerOf(storage);
}

TEST(Peer, AnIPv4AddressIsAHost) {
  const Peer peer = PeerAt("192.0.2.7");
  EXPECT_EQ(peer.address, "192.0.2.7");
  EXPECT_EQ(peer.host, "192.0.2.7");
  EXPECT_EQ(peer.text, "ipv4:192.0.2.7:4711");
  EXPECT_EQ(PeerAt("::ffff:192.0.2.7").text, peer.text);
  EXPECT_EQ(PeerAt("::ffff:192.0.2.7").host, peer.host);
  EXPECT_NE(PeerAt("::ffff:192.0.2.8").host, peer.host);
}

TEST(Peer, AnIPv6NetworkIsAHost) {
  const Peer peer = PeerAt("2001:db8:1:2:3:4:5:6");
  EXPECT_EQ(peer.address, "2001:db8:1:2:3:4:5:6");
  EXPECT_EQ(peer.host, "2001:db8:1:2::/64");
  EXPECT_EQ(peer.text, "ipv6:[2001:db8:1:2:3:4:5:6]:4711");
  EXPECT_EQ(PeerAt("2001:db8:1:2:ffff::1").host, peer.host);
  EXPECT_NE(PeerAt("2001:db8:1:3:3:4:5:6").host, peer.host);
}

TEST(Peer, AUnixSocketHasNoHost) {
  sockaddr_storage storage{};
  storage.ss_family = AF_UNIX;
  EXPECT_EQ(PeerOf(storage).host, "");
  EXPECT_EQ(PeerOf(storage).text, "unix:");
}

}  // namespace
}  // namespace stowage
