#include "server/security/small_file.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace stowage {

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  constexpr size_t kMostBytes = 1 << 20;
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  const auto failed = [&path](int error) {
    return absl::ErrnoToStatus(error, path);  // "PATH: No such file or directory"
  };
  if (file == nullptr) return failed(errno);
  // One byte beyond the limit tells that a file is larger, whatever its size on disk says.
  std::string text(kMostBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  const int error = std::ferror(file) != 0 ? errno : 0;
  std::fclose(file);
  if (error != 0) return failed(error);
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is larger than a mebibyte"));
  }
  return text;
}

}  // namespace stowage
