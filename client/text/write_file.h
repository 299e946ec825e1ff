// Writes files.
#ifndef STOWAGE_CLIENT_TEXT_WRITE_FILE_H_
#define STOWAGE_CLIENT_TEXT_WRITE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stowage {

// Creates or truncates the file. Errors: UNAVAILABLE with the path and the reason.
absl::Status WriteFile(const std::string& path, absl::string_view text);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TEXT_WRITE_FILE_H_
