// Fetches a server's metrics over HTTP. The only file of the client that uses the HTTP library.
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

// Whose metrics, and how.
struct ScrapeTarget {
  std::string address;           // host:port of the server's --http
  bool tls = false;              // with the system's root certificates unless a file is set
  std::string authorities_file;  // PEM: root certificates to verify the server with
  std::string token;             // empty: none is sent
};

// Fetches the metrics of one server, one scrape at a time. Thread-compatible.
class Scraper {
 public:
  // Does not connect yet. Errors: INVALID_ARGUMENT with what is accepted.
  static absl::StatusOr<std::unique_ptr<Scraper>> Make(const ScrapeTarget& target);
  ~Scraper();  // cancels a scrape in the background and waits for its thread

  // Blocks for at most 5 s, with TLS 7 s. Errors: UNAVAILABLE with the reason in a few words;
  // UNAUTHENTICATED with the server's; FAILED_PRECONDITION where the address is not that of a
  // stowage-server.
  absl::StatusOr<Scrape> Fetch();

  // The same on a thread in the background. Requires: the result of the last StartFetch() has been
  // taken by FinishFetch().
  void StartFetch();
  int ready_fd() const { return ready_fd_; }  // readable once the result is there
  absl::StatusOr<Scrape> FinishFetch();       // blocks until the result is there

 private:
  struct Connection;
  explicit Scraper(std::unique_ptr<Connection> connection);

  const std::unique_ptr<Connection> connection_;
  const int ready_fd_;
  std::thread thread_;                            // of StartFetch()
  std::optional<absl::StatusOr<Scrape>> result_;  // written by thread_, read after it is joined
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_TOP_SCRAPE_H_
