// Metrics of a server over HTTP. The only place of the client that knows the HTTP library.
#ifndef STOWAGE_CLIENT_CLI_TOP_SCRAPE_H_
#define STOWAGE_CLIENT_CLI_TOP_SCRAPE_H_

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "client/cli/top/top_figures.h"
#include "solver/base/mutex.h"

namespace stowage {

// Asks a server for its metrics, one look at a time.
class Scraper {
 public:
  // `address` is host:port of the server's --http. Connects to nothing yet.
  // Errors: INVALID_ARGUMENT with what is accepted.
  static absl::StatusOr<std::unique_ptr<Scraper>> Make(const std::string& address);
  ~Scraper();  // breaks off a look that is under way

  // Blocks for 5 s at most. Errors: UNAVAILABLE, which says in a few words why there is no answer;
  // FAILED_PRECONDITION when what answers is no stowage-server.
  absl::StatusOr<Scrape> Look();

  // The same in the background. Requires: what was begun before was taken.
  void Begin();
  // Can be read once Take() has something.
  int ready_fd() const { return ready_fd_; }
  absl::StatusOr<Scrape> Take();  // requires: ready_fd() can be read

 private:
  struct Connection;
  explicit Scraper(std::unique_ptr<Connection> connection);

  const std::unique_ptr<Connection> connection_;
  const int ready_fd_;
  std::thread thread_;                            // of the look that was begun
  std::optional<absl::StatusOr<Scrape>> result_;  // written by it, read once it has ended
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_TOP_SCRAPE_H_
