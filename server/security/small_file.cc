#include "server/security/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

// Checks the permissions of the file that is open: another one may have its name by now. Opening
// and reading a pipe or a device could wait for ever.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, Writers writers) {
  constexpr size_t kMaxBytes = 1 << 20;
  const auto failed = [&path](int error) {
    return absl::ErrnoToStatus(error, path);  // "PATH: No such file or directory"
  };
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return failed(errno);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(fdopen(fd, "rb"), std::fclose);
  if (file == nullptr) {
    const int error = errno;
    close(fd);
    return failed(error);
  }
  struct stat status {};
  if (fstat(fd, &status) != 0) return failed(errno);
  if (S_ISDIR(status.st_mode)) return failed(EISDIR);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is no regular file, but a pipe, a socket or a device"));
  }
  if (writers == Writers::kOwner) RETURN_IF_ERROR(CheckWriters(path, status));
  // One byte beyond the limit tells that a file is larger, whatever its size on disk says.
  std::string text(kMaxBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return failed(errno);
  if (text.size() > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is larger than a mebibyte"));
  }
  return text;
}

}  // namespace stowage
