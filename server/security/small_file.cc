#include "server/security/small_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/security/file_permissions.h"
#include "solver/base/status_macros.h"

namespace stowage {

// Checks the permissions of the file that is open: another one may have its name by now.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, Writers writers) {
  constexpr size_t kMostBytes = 1 << 20;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  const auto failed = [&path](int error) {
    return absl::ErrnoToStatus(error, path);  // "PATH: No such file or directory"
  };
  if (file == nullptr) return failed(errno);
  struct stat status {};
  if (fstat(fileno(file.get()), &status) != 0) return failed(errno);
  if (writers == Writers::kOwner) RETURN_IF_ERROR(CheckWriters(path, status));
  // One byte beyond the limit tells that a file is larger, whatever its size on disk says.
  std::string text(kMostBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return failed(errno);
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is larger than a mebibyte"));
  }
  return text;
}

}  // namespace stowage
