// Who is at the other end of an accepted connection.
#ifndef STOWAGE_SERVER_NET_PEER_H_
#define STOWAGE_SERVER_NET_PEER_H_

#include <sys/socket.h>

#include <string>

namespace stowage {

struct Peer {
  std::string address;  // "192.0.2.7", "2001:db8::1"; empty: a process that uses a Unix socket
  // What counts as one host: an IPv4 address; of an IPv6 address the network of 64 bits, within
  // which one machine can take any address ("2001:db8::/64"). Empty for a Unix socket.
  std::string host;
  std::string text;  // with the port: "ipv4:192.0.2.7:4711", "ipv6:[2001:db8::1]:4711", "unix:"
};

// An IPv4 address that an IPv6 socket shows as ::ffff:192.0.2.7 is an IPv4 address.
Peer PeerOf(const sockaddr_storage& address);
// Of a connected socket.
Peer PeerOf(int fd);

}  // namespace stowage

#endif  // STOWAGE_SERVER_NET_PEER_H_
