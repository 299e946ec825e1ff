#include "server/rpc/begun_streams.h"

#include <algorithm>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "grpc/grpc.h"
#include "grpc/support/alloc.h"
#include "server/rpc/caller_address.h"

namespace stowage {
namespace {

constexpr intptr_t kPage = 500;  // sockets listed at a time

// What channelz says, in JSON; empty: there is no such thing. Takes over `text`.
std::string Take(char* text) {
  const std::unique_ptr<char, void (*)(void*)> owner(text, gpr_free);
  return text != nullptr ? text : "";
}

// The string after "key":" from `*begin` on, which is moved behind it; empty: there is none.
absl::string_view Next(absl::string_view json, absl::string_view key, size_t* begin) {
  const std::string opening = absl::StrCat("\"", key, "\":\"");
  size_t at = json.find(opening, *begin);
  if (at == absl::string_view::npos) return "";
  at += opening.size();
  *begin = json.find('"', at);
  return json.substr(at, *begin - at);
}

// 0: there is none, as channelz writes zeros.
int64_t Number(absl::string_view json, absl::string_view key) {
  size_t begin = 0;
  int64_t number = 0;
  return absl::SimpleAtoi(Next(json, key, &begin), &number) ? number : 0;
}

}  // namespace

// A page is {"socketRef":[{"name":"chttp2 ipv4:127.0.0.1:41232","socketId":"2"}, …]}.
void BegunStreams::FindSockets() {
  if (server_ == 0) server_ = Number(Take(grpc_channelz_get_servers(0)), "serverId");
  if (sockets_.size() >= most_sockets_) {
    sockets_.clear();
    next_socket_ = 0;
  }
  for (bool is_last = false; !is_last;) {
    const std::string page = Take(grpc_channelz_get_server_sockets(server_, next_socket_, kPage));
    is_last = true;
    for (size_t begin = 0;;) {
      absl::string_view name = Next(page, "name", &begin);
      int64_t id = 0;
      if (name.empty() || !absl::SimpleAtoi(Next(page, "socketId", &begin), &id)) break;
      absl::ConsumePrefix(&name, "chttp2 ");
      sockets_[PeerText(name)] = id;
      next_socket_ = std::max(next_socket_, id + 1);
      is_last = false;
    }
  }
  most_sockets_ = std::max(most_sockets_, 2 * sockets_.size());
}

int64_t BegunStreams::Of(const std::string& peer) {
  // Twice where an earlier connection of the peer has been closed.
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto found = sockets_.find(peer);
    if (found == sockets_.end()) {
      FindSockets();
      found = sockets_.find(peer);
      if (found == sockets_.end()) return 0;
    }
    const std::string socket = Take(grpc_channelz_get_socket(found->second));
    if (!socket.empty()) return Number(socket, "streamsStarted");
    sockets_.erase(found);
  }
  return 0;
}

}  // namespace stowage
