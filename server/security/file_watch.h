// Watches files that operators replace while the server runs.
#ifndef STOWAGE_SERVER_SECURITY_FILE_WATCH_H_
#define STOWAGE_SERVER_SECURITY_FILE_WATCH_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace stowage {

// Identifies one version of a file; all 0 where there is none. Symbolic links are followed, so that
// replacing a link is a change.
struct FileVersion {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t seconds = 0;  // since 1970, of the last change of contents, permissions or owner
  int64_t nanoseconds = 0;
  bool operator==(const FileVersion&) const = default;
};
// One version for each path, in their order.
std::vector<FileVersion> VersionsOf(const std::vector<std::string>& paths);

// Compares the files with their last versions every `pause`, on a thread of its own, and calls
// `changed` when one differs, and again every `pause` until it returns true. `versions` are those
// from before the files were read, so that a change during reading counts. `changed` is called
// from that thread only. The destructor joins the thread.
class FileWatch {
 public:
  FileWatch(std::vector<std::string> paths, std::vector<FileVersion> versions,
            std::function<bool()> changed,
            std::chrono::milliseconds pause = std::chrono::seconds(1));

 private:
  std::jthread thread_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_SECURITY_FILE_WATCH_H_
