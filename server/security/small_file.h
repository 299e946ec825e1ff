// Reads the small files that operators name: certificates, keys, tokens.
#ifndef STOWAGE_SERVER_SECURITY_SMALL_FILE_H_
#define STOWAGE_SERVER_SECURITY_SMALL_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace stowage {

// The contents of a file of at most 1 MiB. Blocks on the file system. Thread-safe.
// Errors: NOT_FOUND, PERMISSION_DENIED, or what the system's error maps to, and INVALID_ARGUMENT
// for a larger file; all begin with the path: "/etc/stowage/tokens: No such file or directory".
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_SERVER_SECURITY_SMALL_FILE_H_
