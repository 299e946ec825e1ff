#include "solver/base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

absl::Status CannotWrite(const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(error)));
}

// Reads up to the end, or `max_bytes`.
absl::StatusOr<std::string> Read(std::FILE* file, const std::string& name, size_t max_bytes) {
  constexpr size_t kBlock = size_t{1} << 16;
  std::string text;
  std::vector<char> block(kBlock);
  size_t read = 1;
  while (read > 0 && text.size() < max_bytes) {
    read = std::fread(block.data(), 1, std::min(kBlock, max_bytes - text.size()), file);
    if (std::ferror(file) != 0) return absl::ErrnoToStatus(errno, name);
    text.append(block.data(), read);
  }
  return text;
}

// Writes and syncs all of it, and closes the file. Returns an error number, 0 for success.
int WriteAndClose(int file, absl::string_view text) {
  int error = 0;
  while (!text.empty() && error == 0) {
    const ssize_t count = write(file, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<size_t>(count));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && fsync(file) != 0) error = errno;
  if (close(file) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) return absl::ErrnoToStatus(errno, path);
  return ReadToEnd(file.get(), path);
}

absl::StatusOr<std::string> ReadToEnd(std::FILE* file, const std::string& name) {
  return Read(file, name, SIZE_MAX);
}

absl::StatusOr<std::string> ReadSmallFile(
    const std::string& path, FileKind kind,
    absl::FunctionRef<absl::Status(const struct stat&)> check) {
  constexpr size_t kMaxBytes = 1 << 20;
  const bool is_regular = kind == FileKind::kRegular;
  const int opened = open(path.c_str(), O_RDONLY | O_CLOEXEC | (is_regular ? O_NONBLOCK : 0));
  if (opened < 0) return absl::ErrnoToStatus(errno, path);
  const File file(fdopen(opened, "rb"));
  if (file == nullptr) {
    const int error = errno;
    close(opened);
    return absl::ErrnoToStatus(error, path);
  }
  struct stat status {};
  if (fstat(opened, &status) != 0) return absl::ErrnoToStatus(errno, path);
  if (S_ISDIR(status.st_mode)) return absl::ErrnoToStatus(EISDIR, path);
  if (is_regular && !S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is no regular file, but a pipe, a socket or a device"));
  }
  RETURN_IF_ERROR(check(status));
  // One byte beyond the limit tells that a file is larger, whatever its size on disk says.
  ASSIGN_OR_RETURN(std::string text, Read(file.get(), path, kMaxBytes + 1));
  if (text.size() <= kMaxBytes) return text;
  return absl::InvalidArgumentError(absl::StrCat(path, ": is larger than a mebibyte"));
}

absl::Status WriteFile(const std::string& path, absl::string_view text) {
  std::FILE* const file = std::fopen(path.c_str(), "wbe");
  const bool written =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  int error = errno;
  // fclose() writes what is buffered, so it can be the call that fails.
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (written && closed) return absl::OkStatus();
  if (written) error = errno;
  return CannotWrite(path, error);
}

// The rename must not become durable before the contents, hence the sync before it.
absl::Status ReplaceFile(const std::string& path, absl::string_view text) {
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  const int file = mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0) return CannotWrite(path, errno);
  (void)fchmod(file, 0644);  // mkostemp() makes it private to its owner
  int error = WriteAndClose(file, text);
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  (void)unlink(temporary.c_str());
  return CannotWrite(path, error);
}

}  // namespace stowage
