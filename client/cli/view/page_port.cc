#include "client/cli/view/page_port.h"

#include <cstddef>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "httplib.h"
#include "server/web/page.h"

namespace stowage {
namespace {

constexpr const char* kAddress = "127.0.0.1";
constexpr int kForbidden = 403;
constexpr int kBadRequest = 400;
constexpr int kConflict = 409;

// 128 bits of the system's randomness, in hexadecimal digits.
std::string NewToken() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&token, absl::Hex(random(), absl::kZeroPad8));
  return token;
}

// Takes as long wherever they differ.
bool HasPrefix(absl::string_view text, absl::string_view prefix) {
  if (text.size() < prefix.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < prefix.size(); ++i) {
    difference |= static_cast<unsigned char>(text[i]) ^ static_cast<unsigned char>(prefix[i]);
  }
  return difference == 0;
}

// Uncompressed, as the library sends what has a length and comes in parts: it would prefer Brotli,
// at a level that takes a second for a page.
void SetContent(std::string body, const char* type, httplib::Response& response) {
  const size_t length = body.size();
  response.set_content_provider(
      length, type, [body = std::move(body)](size_t offset, size_t part, httplib::DataSink& sink) {
        return sink.write(body.data() + offset, part);
      });
}

void Respond(absl::StatusOr<std::string> json, httplib::Response& response) {
  if (json.ok()) return SetContent(*std::move(json), "application/json", response);
  response.status = absl::IsCancelled(json.status()) ? kConflict : kBadRequest;
  response.set_content(std::string(json.status().message()), "text/plain; charset=utf-8");
}

}  // namespace

struct PagePort::Parts {
  explicit Parts(Sources its_sources) : sources(std::move(its_sources)) {
    const auto headers = PageHeaders();
    server.set_default_headers({headers.begin(), headers.end()});
    server.set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          if (IsAdmitted(request)) return httplib::Server::HandlerResponse::Unhandled;
          response.status = kForbidden;
          response.set_content("open the address that stowage view printed\n", "text/plain");
          return httplib::Server::HandlerResponse::Handled;
        });
    server.Get(path, [this](const httplib::Request&, httplib::Response& response) {
      SetContent(sources.page, "text/html; charset=utf-8", response);
    });
    server.Get(
        path + "solve", [this](const httplib::Request& request, httplib::Response& response) {
          int64_t memory_bytes = 0;
          if (!absl::SimpleAtoi(request.get_param_value("memory_bytes"), &memory_bytes)) {
            return Respond(absl::InvalidArgumentError("memory_bytes: is not a number of bytes"),
                           response);
          }
          Respond(sources.solve(memory_bytes), response);
        });
    server.Get(path + "frontier", [this](const httplib::Request&, httplib::Response& response) {
      Respond(sources.frontier(), response);
    });
  }

  bool IsAdmitted(const httplib::Request& request) const {
    const std::string host = request.get_header_value("Host");
    const bool is_ours =
        host == absl::StrCat(kAddress, ":", port) || host == absl::StrCat("localhost:", port);
    const bool origin_is_ours = !request.has_header("Origin") ||
                                request.get_header_value("Origin") == absl::StrCat("http://", host);
    return is_ours && origin_is_ours && HasPrefix(request.path, path);
  }

  const Sources sources;
  const std::string path = absl::StrCat("/", NewToken(), "/");
  httplib::Server server;
  int port = 0;
  std::string url;
};

absl::StatusOr<std::unique_ptr<PagePort>> PagePort::Listen(int port, Sources sources) {
  auto parts = std::make_unique<Parts>(std::move(sources));
  // The library would let a second process take the same port.
  parts->server.set_socket_options([](socket_t) {});
  parts->port = port == 0 ? parts->server.bind_to_any_port(kAddress)
                : parts->server.bind_to_port(kAddress, port) ? port
                                                             : -1;
  if (parts->port < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", kAddress, ":", port, "; is the port in use?"));
  }
  parts->url = absl::StrCat("http://", kAddress, ":", parts->port, parts->path);
  return std::unique_ptr<PagePort>(new PagePort(std::move(parts)));
}

PagePort::PagePort(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
PagePort::~PagePort() = default;

const std::string& PagePort::url() const { return parts_->url; }
void PagePort::Serve() { parts_->server.listen_after_bind(); }

}  // namespace stowage
