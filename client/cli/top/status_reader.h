// Reads a server's /status over HTTP. The only file of the client that uses the HTTP library.
#ifndef STOWAGE_CLIENT_CLI_TOP_STATUS_READER_H_
#define STOWAGE_CLIENT_CLI_TOP_STATUS_READER_H_

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "stowage/v1/status.pb.h"

namespace stowage {

// Whose status, and how.
struct StatusTarget {
  std::string address;           // host:port of the server's --http
  bool tls = false;              // with the system's root certificates unless a file is set
  std::string authorities_file;  // PEM: root certificates to verify the server with
  std::string token;             // empty: none is sent
};

// Fetches the status of one server, one at a time. Thread-compatible.
class StatusReader {
 public:
  // Does not connect yet. Errors: INVALID_ARGUMENT with what is accepted.
  static absl::StatusOr<std::unique_ptr<StatusReader>> Make(const StatusTarget& target);
  ~StatusReader();  // cancels a fetch in the background and waits for its thread

  // With the window since an earlier look, where `since_seconds` is its uptime. Blocks for at most
  // 5 s, with TLS 7 s. Errors: UNAVAILABLE with the reason in a few words; UNAUTHENTICATED with the
  // server's; FAILED_PRECONDITION where the address is not that of a stowage-server, or of one from
  // before /status.
  absl::StatusOr<v1::ServerStatus> Fetch(std::optional<double> since_seconds);

  // The same on a thread in the background. Requires: the result of the last StartFetch() has been
  // taken by FinishFetch().
  void StartFetch(std::optional<double> since_seconds);
  int ready_fd() const { return ready_fd_; }       // readable once the result is there
  absl::StatusOr<v1::ServerStatus> FinishFetch();  // blocks until the result is there

 private:
  struct Connection;
  explicit StatusReader(std::unique_ptr<Connection> connection);

  const std::unique_ptr<Connection> connection_;
  const int ready_fd_;
  std::thread thread_;  // of StartFetch()
  std::optional<absl::StatusOr<v1::ServerStatus>>
      result_;  // written by thread_, read after it is joined
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_TOP_STATUS_READER_H_
