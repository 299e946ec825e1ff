// Tells when files that operators replace while the server runs have been replaced.
#ifndef STOWAGE_SERVER_SECURITY_FILE_WATCH_H_
#define STOWAGE_SERVER_SECURITY_FILE_WATCH_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace stowage {

// What tells one content of a file from another; all 0 where there is none. What a name leads to
// counts, so that exchanging a link does.
struct FileLook {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t seconds = 0;  // of the last change, of rights and owners too
  int64_t nanoseconds = 0;
  bool operator==(const FileLook&) const = default;
};
std::vector<FileLook> LookAt(const std::vector<std::string>& paths);

// Looks at the files every `pause` and calls `changed`, on a thread of its own, when they do not
// look as at the last time, and again at every look until it returns true. `seen` is from before
// they were read, so that what changes meanwhile counts. Until the destructor, which joins the
// thread.
class FileWatch {
 public:
  FileWatch(std::vector<std::string> paths, std::vector<FileLook> seen,
            std::function<bool()> changed,
            std::chrono::milliseconds pause = std::chrono::seconds(1));

 private:
  std::jthread thread_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_SECURITY_FILE_WATCH_H_
