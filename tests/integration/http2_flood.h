// Floods below the calls: frames that HTTP/2 allows and that cost a server more than their sender.
#ifndef STOWAGE_TESTS_INTEGRATION_HTTP2_FLOOD_H_
#define STOWAGE_TESTS_INTEGRATION_HTTP2_FLOOD_H_

#include <chrono>
#include <ostream>
#include <string>

#include "tests/integration/raw_client.h"

namespace stowage {

enum class Flood {
  kResets,         // begins a call and resets it, and so on (CVE-2023-44487)
  kContinuations,  // headers without end, of many small ones
  kLongHeader,     // headers without end, of one that is never whole
  kPings,
  kSettings,
  kEmptyData,  // on one stream
};
std::ostream& operator<<(std::ostream& out, Flood flood);

// Sends frames over a connection of its own, as fast as they are taken, until the server closes it
// or `max_bytes` have been sent, or `patience` is over. Reads whatever the server answers. Returns
// whether the server closed it. `from`: the address to connect from. Throws as RawSocket does.
bool SendFlood(Flood flood, const std::string& address, const std::string& from, size_t max_bytes,
               std::chrono::milliseconds patience);

// Begins so many calls over a connection of its own, each with metadata of so many bytes, and sends
// no request. The connection is open until the result is destroyed, or the server closes it; then
// fewer calls may have begun. Throws as RawSocket does.
RawSocket HoldCalls(const std::string& address, const std::string& from, int calls,
                    size_t metadata_bytes);

}  // namespace stowage

#endif  // STOWAGE_TESTS_INTEGRATION_HTTP2_FLOOD_H_
