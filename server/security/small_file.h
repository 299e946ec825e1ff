// Reads the small files that operators name: certificates, keys, tokens.
#ifndef STOWAGE_SERVER_SECURITY_SMALL_FILE_H_
#define STOWAGE_SERVER_SECURITY_SMALL_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace stowage {

// The contents of a file of at most a mebibyte.
// Errors: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT, beginning with the path.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_SERVER_SECURITY_SMALL_FILE_H_
