#include "server/security/file_watch.h"

#include <sys/stat.h>

#include <condition_variable>
#include <mutex>
#include <stop_token>
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

// The versions are taken before `changed` reads the files: what changes while it reads differs from
// them at the next comparison. A call that failed is repeated even where no version differs, since
// a file can become readable without a change of its own (a directory's permissions).
FileWatch::FileWatch(std::vector<std::string> paths, std::vector<FileVersion> versions,
                     std::function<bool()> changed, std::chrono::milliseconds pause)
    : thread_([paths = std::move(paths), last = std::move(versions), changed = std::move(changed),
               pause](const std::stop_token& stop) mutable {
        // Only for the interruptible wait: nothing is shared.
        std::mutex mutex;
        std::condition_variable_any woken;
        bool is_done = true;
        while (!stop.stop_requested()) {
          std::vector<FileVersion> now = VersionsOf(paths);
          if (!is_done || now != last) {
            last = std::move(now);
            is_done = changed();
          }
          std::unique_lock lock(mutex);
          woken.wait_for(lock, stop, pause, [] { return false; });
        }
      }) {}

}  // namespace stowage
