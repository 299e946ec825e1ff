// Serves a page to the browsers of this user: on the loopback address, below a random token.
#ifndef STOWAGE_CLIENT_CLI_VIEW_PAGE_PORT_H_
#define STOWAGE_CLIENT_CLI_VIEW_PAGE_PORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stowage {

// Who asks must name the token, which other users of the machine do not see, and this port as Host
// and, where there is one, as Origin: a page of another site that a name of its own leads here
// names that. Everything else is answered with 403.
class PagePort {
 public:
  // What is below the token; called from several threads.
  struct Sources {
    std::string page;  // HTML
    // JSON of a schedule within that memory, of budgets. An error's message is the response's body,
    // with 409 for CANCELLED.
    std::function<absl::StatusOr<std::string>(int64_t memory_bytes)> solve;
    std::function<absl::StatusOr<std::string>()> frontier;
  };

  // Port 0: a free one. Errors: UNAVAILABLE where the port is taken.
  static absl::StatusOr<std::unique_ptr<PagePort>> Listen(int port, Sources sources);
  ~PagePort();

  // "http://127.0.0.1:PORT/TOKEN/".
  const std::string& url() const;
  // Answers until the process ends.
  void Serve();

 private:
  struct Parts;
  explicit PagePort(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_VIEW_PAGE_PORT_H_
