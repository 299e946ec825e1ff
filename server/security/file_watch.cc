#include "server/security/file_watch.h"

#include <sys/stat.h>

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

namespace stowage {

std::vector<FileLook> LookAt(const std::vector<std::string>& paths) {
  std::vector<FileLook> looks;
  for (const std::string& path : paths) {
    struct stat file {};
    FileLook& look = looks.emplace_back();
    if (stat(path.c_str(), &file) != 0) continue;
    look = {file.st_dev, file.st_ino, file.st_size, file.st_ctim.tv_sec, file.st_ctim.tv_nsec};
  }
  return looks;
}

FileWatch::FileWatch(std::vector<std::string> paths, std::vector<FileLook> seen,
                     std::function<bool()> changed, std::chrono::milliseconds pause)
    : thread_([paths = std::move(paths), seen = std::move(seen), changed = std::move(changed),
               pause](const std::stop_token& stop) mutable {
        std::mutex mutex;
        std::condition_variable_any woken;
        bool is_done = true;
        while (!stop.stop_requested()) {
          std::vector<FileLook> now = LookAt(paths);
          if (!is_done || now != seen) {
            seen = std::move(now);
            is_done = changed();
          }
          std::unique_lock lock(mutex);
          woken.wait_for(lock, stop, pause, [] { return false; });
        }
      }) {}

}  // namespace stowage
