// Reads the small files that operators name: certificates, keys, tokens, the configuration.
#ifndef STOWAGE_SERVER_SECURITY_SMALL_FILE_H_
#define STOWAGE_SERVER_SECURITY_SMALL_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace stowage {

// Who may be able to write a file that is read.
enum class Writers {
  kAnybody,
  kOwner,  // of files that decide who is let in
};

// The contents of a regular file of at most 1 MiB. Blocks on the file system, never on a pipe's
// writer. Thread-safe. Errors: NOT_FOUND, PERMISSION_DENIED, or what the system's error maps to,
// and INVALID_ARGUMENT for a larger file, one that is not regular, or one that others than
// `writers` may write; all begin with the path:
// "/etc/stowage/tokens: No such file or directory".
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, Writers writers);

}  // namespace stowage

#endif  // STOWAGE_SERVER_SECURITY_SMALL_FILE_H_
