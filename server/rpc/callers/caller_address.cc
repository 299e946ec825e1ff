#include "server/rpc/callers/caller_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "solver/base/quote.h"

namespace stowage {
namespace {

constexpr int kBits = 128;
constexpr int kBitsBeforeV4 = 96;

bool IsV4(const IpAddress& address) {
  constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(kMapped.begin(), kMapped.end(), address.begin());
}

// Without port and brackets. A single colon separates a port; an IPv6 address has several.
std::string WithoutPort(absl::string_view text) {
  if (absl::ConsumePrefix(&text, "[")) return std::string(text.substr(0, text.find(']')));
  const size_t colon = text.find(':');
  return std::string(colon == text.rfind(':') ? text.substr(0, colon) : text);
}

absl::optional<IpAddress> ParseWithoutPort(const std::string& text) {
  IpAddress address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const bool is_read = absl::StrContains(text, ':')
                           ? inet_pton(AF_INET6, text.c_str(), address.data()) == 1
                           : inet_pton(AF_INET, text.c_str(), address.data() + 12) == 1;
  return is_read ? absl::make_optional(address) : absl::nullopt;
}

// The address in gRPC's name of a peer.
absl::optional<IpAddress> AddressOf(absl::string_view peer) {
  if (!absl::ConsumePrefix(&peer, "ipv4:") && !absl::ConsumePrefix(&peer, "ipv6:")) {
    return absl::nullopt;
  }
  return ParseIp(PeerText(peer));
}

}  // namespace

absl::optional<IpAddress> ParseIp(absl::string_view text) {
  std::string host = WithoutPort(text);
  host.resize(std::min(host.size(), host.find('%')));  // the zone of a link-local address
  return ParseWithoutPort(host);
}

// Brackets are percent-encoded: most peers have none, and every call comes from one.
std::string PeerText(absl::string_view peer) {
  if (!absl::StrContains(peer, '%')) return std::string(peer);
  return absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

std::string HostName(const IpAddress& address) {
  // By hand: inet_ntop() takes three times as long, and every call needs it.
  if (IsV4(address)) {
    return absl::StrCat(address[12], ".", address[13], ".", address[14], ".", address[15]);
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  IpAddress network{};
  std::copy_n(address.begin(), 8, network.begin());
  return absl::StrCat(inet_ntop(AF_INET6, network.data(), text.data(), text.size()), "/64");
}

absl::StatusOr<AddressRange> AddressRange::Parse(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('/', 1));
  const absl::optional<IpAddress> first = ParseWithoutPort(std::string(parts[0]));
  if (first.has_value()) {
    const int before = absl::StrContains(parts[0], ":") ? 0 : kBitsBeforeV4;
    int bits = kBits - before;
    if (parts.size() == 1 ||
        (absl::SimpleAtoi(parts[1], &bits) && bits >= 0 && bits <= kBits - before)) {
      return AddressRange(*first, before + bits);
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      Quoted(text), " is no address or range such as 10.0.0.7, 10.0.0.0/28 or 2001:db8::/64"));
}

bool AddressRange::Contains(const IpAddress& address) const {
  const int bytes = bits_ / 8;
  if (std::memcmp(address.data(), first_.data(), static_cast<size_t>(bytes)) != 0) return false;
  const int rest = bits_ % 8;
  if (rest == 0) return true;
  const auto byte = static_cast<size_t>(bytes);
  return (address[byte] ^ first_[byte]) >> (8 - rest) == 0;
}

bool AddressRange::IsWide() const {
  const bool is_v4 = bits_ >= kBitsBeforeV4 && IsV4(first_);
  return bits_ < (is_v4 ? kBitsBeforeV4 + 24 : 64);
}

absl::StatusOr<TrustedProxies> TrustedProxies::Parse(const std::vector<std::string>& ranges) {
  TrustedProxies proxies;
  for (const std::string& text : ranges) {
    if (text == "unix") {
      proxies.unix_socket_ = true;
      continue;
    }
    const absl::StatusOr<AddressRange> range = AddressRange::Parse(text);
    if (!range.ok()) return range.status();
    proxies.ranges_.push_back(*range);
    if (range->IsWide()) proxies.wide_ranges_.push_back(text);
  }
  return proxies;
}

bool TrustedProxies::Contains(const IpAddress& address) const {
  return absl::c_any_of(ranges_,
                        [&address](const AddressRange& range) { return range.Contains(address); });
}

// Each proxy appends the address that it was called from, so that only what trusted proxies wrote
// counts: the values are read from the end, up to the first address that is not trusted.
std::string TrustedProxies::CallerOf(absl::string_view peer,
                                     const std::vector<absl::string_view>& forwarded_for) const {
  // Without proxies the name of an IPv4 host is what gRPC has for it, and needs not be read.
  if (absl::string_view host = peer; ranges_.empty() && absl::ConsumePrefix(&host, "ipv4:")) {
    return std::string(host.substr(0, host.rfind(':')));
  }
  absl::optional<IpAddress> caller = AddressOf(peer);
  bool is_proxy = caller.has_value() ? Contains(*caller) : unix_socket_;
  for (size_t value = forwarded_for.size(); value > 0 && is_proxy; --value) {
    const std::vector<absl::string_view> hops = absl::StrSplit(forwarded_for[value - 1], ',');
    for (size_t hop = hops.size(); hop > 0 && is_proxy; --hop) {
      const absl::optional<IpAddress> before = ParseIp(absl::StripAsciiWhitespace(hops[hop - 1]));
      if (!before.has_value()) return caller.has_value() ? HostName(*caller) : "unix";
      caller = before;
      is_proxy = Contains(*before);
    }
  }
  return caller.has_value() ? HostName(*caller) : "unix";
}

}  // namespace stowage
