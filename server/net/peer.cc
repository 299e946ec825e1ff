#include "server/net/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

constexpr size_t kNetworkBytes = 8;  // of an IPv6 host

Peer PeerOf4(const in_addr& address, in_port_t port) {
  char text[INET_ADDRSTRLEN];
  inet_ntop(AF_INET, &address, text, sizeof(text));
  return {.address = text, .host = text, .text = absl::StrCat("ipv4:", text, ":", ntohs(port))};
}

Peer PeerOf6(const sockaddr_in6& from) {
  char text[INET6_ADDRSTRLEN];
  inet_ntop(AF_INET6, &from.sin6_addr, text, sizeof(text));
  in6_addr network = from.sin6_addr;
  std::fill(std::begin(network.s6_addr) + kNetworkBytes, std::end(network.s6_addr), 0);
  char network_text[INET6_ADDRSTRLEN];
  inet_ntop(AF_INET6, &network, network_text, sizeof(network_text));
  return {.address = text,
          .host = absl::StrCat(network_text, "/64"),
          .text = absl::StrCat("ipv6:[", text, "]:", ntohs(from.sin6_port))};
}

}  // namespace

Peer PeerOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& from = reinterpret_cast<const sockaddr_in&>(address);
    return PeerOf4(from.sin_addr, from.sin_port);
  }
  if (address.ss_family != AF_INET6) return {.address = "", .host = "", .text = "unix:"};
  const auto& from = reinterpret_cast<const sockaddr_in6&>(address);
  if (!IN6_IS_ADDR_V4MAPPED(&from.sin6_addr)) return PeerOf6(from);
  in_addr last{};
  std::copy_n(std::end(from.sin6_addr.s6_addr) - sizeof(last), sizeof(last),
              reinterpret_cast<uint8_t*>(&last));
  return PeerOf4(last, from.sin6_port);
}

Peer PeerOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return PeerOf(address);
}

}  // namespace stowage
