// The packaged HAProxy before servers of a test.
#ifndef STOWAGE_TESTS_INTEGRATION_HAPROXY_H_
#define STOWAGE_TESTS_INTEGRATION_HAPROXY_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/support/process.h"

namespace stowage {

// deploy/haproxy/haproxy.cfg
extern const char* const kShippedHaproxy;

// One to three servers, which are called "one", "two" and "three" in order.
class Haproxy {
 public:
  // Returns once it listens; WaitUntilUp() says when it has found a server ready. `variables`: more
  // of its environment, as in "STOWAGE_HOST_OPEN_CALLS=3". `configuration` is a file. `bind`: what
  // follows the address in STOWAGE_BIND, " ssl crt FILE alpn h2".
  explicit Haproxy(const std::vector<const ServerProcess*>& servers,
                   const std::vector<std::string>& variables = {},
                   const std::string& configuration = kShippedHaproxy,
                   const std::string& bind = "");

  // Of callers.
  const std::string& address() const { return address_; }
  std::string Log() { return program_.Log(); }

  // A figure of its own about a server: Figure("max_sessions", "one").
  double Figure(absl::string_view figure, absl::string_view server,
                absl::string_view labels = "") const;
  void WaitForFigure(absl::string_view figure, absl::string_view server, absl::string_view labels,
                     double value);
  void WaitUntilUp(absl::string_view server) { WaitForFigure("status", server, kUp, 1); }
  void WaitUntilDown(absl::string_view server) { WaitForFigure("status", server, kDown, 1); }

 private:
  static constexpr const char* kUp = ",state=\"UP\"";
  static constexpr const char* kDown = ",state=\"DOWN\"";

  const std::string address_;
  const std::string metrics_address_;
  BackgroundProgram program_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_INTEGRATION_HAPROXY_H_
