#include "server/security/file_permissions.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "solver/base/file.h"

namespace stowage {
namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

// "has mode 0644"
std::string ModeOf(const struct stat& file) {
  return absl::StrFormat("has mode %04o", file.st_mode & 07777U);
}

}  // namespace

absl::Status CheckWriters(const std::string& path, const struct stat& file) {
  if ((file.st_mode & kOthersWrite) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", ModeOf(file), ": users other than its owner may write it, and so ",
                   "let themselves in; run: chmod go-w ", path));
}

absl::StatusOr<std::string> ReadTrustedFile(const std::string& path) {
  return ReadSmallFile(path, FileKind::kRegular,
                       [&path](const struct stat& file) { return CheckWriters(path, file); });
}

std::optional<SecurityWarning> WarnOfReaders(const std::string& path, const struct stat& file,
                                             uid_t user) {
  const mode_t needless = file.st_uid == user ? S_IRGRP | S_IROTH : S_IROTH;
  if ((file.st_mode & needless) == 0) return std::nullopt;
  return SecurityWarning{path, absl::StrCat(ModeOf(file), ": other users may read its secrets"),
                         absl::StrCat("chmod ", file.st_uid == user ? "go= " : "o= ", path)};
}

std::optional<SecurityWarning> WarnOfWriters(const std::string& path, const struct stat& file,
                                             absl::string_view contents) {
  if ((file.st_mode & kOthersWrite) == 0) return std::nullopt;
  return SecurityWarning{path, absl::StrCat(ModeOf(file), ": other users may replace ", contents),
                         absl::StrCat("chmod go-w ", path)};
}

std::optional<SecurityWarning> WarnOfFolder(const std::string& file, absl::string_view contents) {
  const std::string folder = std::filesystem::absolute(file).parent_path().string();
  struct stat directory {};
  if (stat(folder.c_str(), &directory) != 0) return std::nullopt;
  if ((directory.st_mode & S_ISVTX) != 0) return std::nullopt;
  return WarnOfWriters(folder, directory, contents);
}

}  // namespace stowage
