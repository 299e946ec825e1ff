#include "server/ops/file_watch.h"

#include <sys/stat.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <utility>

namespace stowage {
namespace {

// What tells one content from another; all 0 where there is no file.
struct Look {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t seconds = 0;
  int64_t nanoseconds = 0;
  bool operator==(const Look&) const = default;
};

std::vector<Look> LookAt(const std::vector<std::string>& paths) {
  std::vector<Look> looks;
  for (const std::string& path : paths) {
    struct stat file {};
    Look& look = looks.emplace_back();
    if (stat(path.c_str(), &file) != 0) continue;
    look = {file.st_dev, file.st_ino, file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec};
  }
  return looks;
}

}  // namespace

FileWatch::FileWatch(std::vector<std::string> paths, std::function<void()> changed,
                     std::chrono::milliseconds pause)
    // Looked at here: what changes from now on is seen, however late the thread starts.
    : thread_([paths, changed = std::move(changed), pause,
               seen = LookAt(paths)](const std::stop_token& stop) mutable {
        std::mutex mutex;
        std::condition_variable_any woken;
        while (true) {
          std::unique_lock lock(mutex);
          woken.wait_for(lock, stop, pause, [] { return false; });
          if (stop.stop_requested()) return;
          std::vector<Look> now = LookAt(paths);
          if (now == seen) continue;
          seen = std::move(now);
          changed();
        }
      }) {}

}  // namespace stowage
