// Reads whole files, writes them, and replaces them atomically. Blocks on the file system.
// Thread-safe. Messages of errors name the file.
#ifndef STOWAGE_SOLVER_BASE_FILE_H_
#define STOWAGE_SOLVER_BASE_FILE_H_

#include <sys/stat.h>

#include <cstdio>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stowage {

// The contents, of any size, of a file, pipe or device. Errors: what the system's error maps to, as
// in NOT_FOUND "chain.json: No such file or directory".
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// What is left of an open file, up to its end. `name` begins the messages of errors.
absl::StatusOr<std::string> ReadToEnd(std::FILE* file, const std::string& name);

enum class FileKind {
  kAny,      // reading may wait for the writer of a pipe
  kRegular,  // never waits for a pipe or a device, which are INVALID_ARGUMENT
};

// The contents of a file of at most 1 MiB: a certificate, a token, a configuration. `check` is
// called with the file that is open, since another one may have its name by now; its error is
// returned. Errors: those of ReadWholeFile(); INVALID_ARGUMENT for a larger file.
absl::StatusOr<std::string> ReadSmallFile(
    const std::string& path, FileKind kind,
    absl::FunctionRef<absl::Status(const struct stat&)> check = [](const struct stat&) {
      return absl::OkStatus();
    });

// Creates or truncates the file, which may be a pipe or a device. Errors: UNAVAILABLE, as in
// "cannot write step.json: No space left on device".
absl::Status WriteFile(const std::string& path, absl::string_view text);

// Replaces the file atomically, by one that all may read: a reader finds the old contents or the
// new ones, even after a crash. Of concurrent calls the last wins. Errors: those of WriteFile();
// the old file stays.
absl::Status ReplaceFile(const std::string& path, absl::string_view text);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_FILE_H_
