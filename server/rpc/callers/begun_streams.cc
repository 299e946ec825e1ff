#include "server/rpc/callers/begun_streams.h"

#include <algorithm>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "grpc/grpc.h"
#include "grpc/support/alloc.h"
#include "nlohmann/json.hpp"
#include "server/rpc/callers/caller_address.h"

namespace stowage {
namespace {

constexpr intptr_t kPage = 500;  // sockets listed at a time

using Json = nlohmann::json;
using Pointer = Json::json_pointer;

// What channelz says; discarded where there is no such thing. Takes over `text`.
Json Take(char* text) {
  const std::unique_ptr<char, void (*)(void*)> owner(text, gpr_free);
  return Json::parse(text != nullptr ? text : "", nullptr, /*allow_exceptions=*/false);
}

// Empty where there is none.
std::string TextAt(const Json& json, const char* place) {
  const Pointer pointer(place);
  return json.contains(pointer) ? json[pointer].get<std::string>() : "";
}

// Channelz writes numbers as strings, and leaves out zeros.
int64_t NumberAt(const Json& json, const char* place) {
  int64_t number = 0;
  return absl::SimpleAtoi(TextAt(json, place), &number) ? number : 0;
}

}  // namespace

// A page is {"socketRef":[{"name":"chttp2 ipv4:127.0.0.1:41232","socketId":"2"}, …]}.
void BegunStreams::FindSockets() {
  if (server_ == 0) {
    server_ = NumberAt(Take(grpc_channelz_get_servers(0)), "/server/0/ref/serverId");
  }
  if (sockets_.size() >= max_sockets_) {
    sockets_.clear();
    next_socket_ = 0;
  }
  while (true) {
    const Json page = Take(grpc_channelz_get_server_sockets(server_, next_socket_, kPage));
    if (!page.contains("socketRef") || page["socketRef"].empty()) break;
    for (const Json& socket : page["socketRef"]) {
      const std::string name = TextAt(socket, "/name");
      const int64_t id = NumberAt(socket, "/socketId");
      sockets_[PeerText(absl::StripPrefix(name, "chttp2 "))] = id;
      next_socket_ = std::max(next_socket_, id + 1);
    }
  }
  max_sockets_ = std::max(max_sockets_, 2 * sockets_.size());
}

StreamTotals BegunStreams::Of(const std::string& peer) {
  // Twice where an earlier connection of the peer has been closed.
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto found = sockets_.find(peer);
    if (found == sockets_.end()) {
      FindSockets();
      found = sockets_.find(peer);
      if (found == sockets_.end()) return {};
    }
    const Json socket = Take(grpc_channelz_get_socket(found->second));
    if (!socket.is_discarded()) {
      return {.begun = NumberAt(socket, "/socket/data/streamsStarted"),
              .ended = NumberAt(socket, "/socket/data/streamsSucceeded") +
                       NumberAt(socket, "/socket/data/streamsFailed")};
    }
    sockets_.erase(found);
  }
  return {};
}

}  // namespace stowage
