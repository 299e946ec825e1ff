// Permissions with which other users of the machine could read secrets or replace what the server
// trusts. Thread-safe.
#ifndef STOWAGE_SERVER_SECURITY_FILE_PERMISSIONS_H_
#define STOWAGE_SERVER_SECURITY_FILE_PERMISSIONS_H_

#include <sys/stat.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stowage {

// What is unsafe in a configuration that is served all the same.
struct SecurityWarning {
  std::string subject;  // a path or an address
  std::string problem;
  std::string remedy;
  bool operator==(const SecurityWarning&) const = default;
};

// OK; or INVALID_ARGUMENT for a file that its group or others may write, since they could let
// themselves in: "/etc/stowage/tokens: has mode 0666: ...; run: chmod go-w /etc/stowage/tokens".
absl::Status CheckWriters(const std::string& path, const struct stat& file);

// The contents of a regular file that decides who is let in, and passes CheckWriters().
// Errors: those of CheckWriters() and of ReadSmallFile().
absl::StatusOr<std::string> ReadTrustedFile(const std::string& path);

// A file of secrets that others may read, or the group of a file that belongs to `user`, the
// server's. The group of another user's file is how the server itself may read it, as are the
// access lists of systemd's credentials, which show as permissions of the group.
std::optional<SecurityWarning> WarnOfReaders(const std::string& path, const struct stat& file,
                                             uid_t user);

// A file or directory to which its group or others may write. `contents`: what they may replace.
std::optional<SecurityWarning> WarnOfWriters(const std::string& path, const struct stat& file,
                                             absl::string_view contents);
// The same for the directory of a file. Not where it has the sticky bit, as that of a Kubernetes
// secret, since nobody replaces the files of others there.
std::optional<SecurityWarning> WarnOfFolder(const std::string& file, absl::string_view contents);

}  // namespace stowage

#endif  // STOWAGE_SERVER_SECURITY_FILE_PERMISSIONS_H_
