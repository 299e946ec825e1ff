#include "server/security/file_watch.h"

#include <sys/stat.h>

#include <utility>

namespace stowage {

std::vector<FileVersion> VersionsOf(const std::vector<std::string>& paths) {
  std::vector<FileVersion> versions;
  for (const std::string& path : paths) {
    struct stat file {};
    FileVersion& version = versions.emplace_back();
    if (stat(path.c_str(), &file) != 0) continue;
    // The change time, unlike the modification time, cannot be set back by whoever copies a file.
    version = {file.st_dev, file.st_ino, file.st_size, file.st_ctim.tv_sec, file.st_ctim.tv_nsec};
  }
  return versions;
}

FileWatch::FileWatch(std::vector<std::string> paths, std::vector<FileVersion> versions,
                     std::function<bool(ReadCause)> read, std::chrono::milliseconds pause)
    : paths_(std::move(paths)),
      last_(std::move(versions)),
      read_(std::move(read)),
      thread_([this, pause](const std::stop_token& stop) { Run(stop, pause); }) {}

void FileWatch::ReadNow() {
  MutexLock lock(mutex_);
  const uint64_t number = ++asked_;
  changed_.notify_all();
  while (answered_ < number) changed_.wait(mutex_);
}

// The versions are taken before `read_` reads the files: what changes while it reads differs from
// them at the next comparison. A reading that failed is repeated even where no version differs,
// since a file can become readable without a change of its own (a directory's permissions).
void FileWatch::Run(const std::stop_token& stop, std::chrono::milliseconds pause) {
  bool is_done = true;
  uint64_t asked = 0;
  uint64_t answered = 0;
  while (!stop.stop_requested()) {
    std::vector<FileVersion> now = VersionsOf(paths_);
    const bool is_new = now != last_;
    if (is_new || asked != answered || !is_done) {
      last_ = std::move(now);
      is_done = read_(is_new ? ReadCause::kNew : ReadCause::kUnchanged);
    }
    MutexLock lock(mutex_);
    answered_ = answered = asked;
    changed_.notify_all();
    changed_.wait_for(mutex_, stop, pause, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return asked_ != answered_;
    });
    asked = asked_;
  }
}

}  // namespace stowage
