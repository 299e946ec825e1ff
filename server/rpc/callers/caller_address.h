// The address that a call comes from, as the name of a caller that has no other.
#ifndef STOWAGE_SERVER_RPC_CALLERS_CALLER_ADDRESS_H_
#define STOWAGE_SERVER_RPC_CALLERS_CALLER_ADDRESS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace stowage {

// An IPv6 address; an IPv4 address is mapped into ::ffff:0:0/96.
using IpAddress = std::array<uint8_t, 16>;

// The address in "10.0.0.7", "10.0.0.7:4711", "2001:db8::1" or "[2001:db8::1]:4711"; nullopt: it is
// none of these.
absl::optional<IpAddress> ParseIp(absl::string_view text);

// The name that gRPC has for a peer, without its percent-encoding: "ipv4:192.0.2.7:4711",
// "ipv6:[2001:db8::1]:4711".
std::string PeerText(absl::string_view peer);

// "10.0.0.7"; of IPv6 the network, "2001:db8:1:2::/64", since one host may have all its addresses.
std::string HostName(const IpAddress& address);

// Addresses with a common prefix. Immutable.
class AddressRange {
 public:
  // Of "10.0.0.0/8", "2001:db8::/32" or one address. Errors: INVALID_ARGUMENT.
  static absl::StatusOr<AddressRange> Parse(absl::string_view text);

  bool Contains(const IpAddress& address) const;

  // Whether it is wider than the network of a few hosts: an IPv4 prefix shorter than 24 bits, or an
  // IPv6 prefix shorter than 64.
  bool IsWide() const;

 private:
  AddressRange(const IpAddress& first, int bits) : first_(first), bits_(bits) {}

  IpAddress first_;
  int bits_;  // of the prefix, 0 to 128
};

// Proxies whose word about their callers' addresses counts. Immutable.
class TrustedProxies {
 public:
  // `ranges` as for AddressRange::Parse(); "unix" for callers on the Unix socket. Errors:
  // INVALID_ARGUMENT.
  static absl::StatusOr<TrustedProxies> Parse(const std::vector<std::string>& ranges);
  TrustedProxies() = default;  // none

  // The caller's host where `peer` is the other end of the connection ("ipv4:10.0.0.7:4711",
  // "ipv6:[2001:db8::1]:4711" or "unix:...") and `forwarded_for` holds the values of
  // x-forwarded-for in their order: the last address there that is no trusted proxy's, if `peer` is
  // one.
  std::string CallerOf(absl::string_view peer,
                       const std::vector<absl::string_view>& forwarded_for) const;

  // Whether a proxy has this address.
  bool Contains(const IpAddress& address) const;

  // Those of the ranges, as they were given, whose other hosts are hardly all proxies.
  const std::vector<std::string>& wide_ranges() const { return wide_ranges_; }

 private:
  std::vector<AddressRange> ranges_;
  std::vector<std::string> wide_ranges_;
  bool unix_socket_ = false;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_CALLERS_CALLER_ADDRESS_H_
