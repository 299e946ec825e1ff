// Watches files that operators replace while the server runs.
#ifndef STOWAGE_SERVER_SECURITY_FILE_WATCH_H_
#define STOWAGE_SERVER_SECURITY_FILE_WATCH_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "solver/base/mutex.h"

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

// Why files are read.
enum class ReadCause {
  kNew,        // one has changed
  kUnchanged,  // none has; ReadNow() was called, or the last reading failed
};

// Compares the files with their last versions every `pause`, on a thread of its own, and calls
// `read` when one differs, and again every `pause` until it returns true. `versions` are those from
// before the files were read, so that a change during reading counts. `read` is called from that
// thread only. The destructor joins the thread.
class FileWatch {
 public:
  FileWatch(std::vector<std::string> paths, std::vector<FileVersion> versions,
            std::function<bool(ReadCause)> read,
            std::chrono::milliseconds pause = std::chrono::seconds(1));

  // Has the files read whether or not one has changed, and returns after that. Thread-safe.
  void ReadNow();

 private:
  void Run(const std::stop_token& stop, std::chrono::milliseconds pause);

  const std::vector<std::string> paths_;
  std::vector<FileVersion> last_;  // this and `read_` are used by the thread alone
  const std::function<bool(ReadCause)> read_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  uint64_t asked_ ABSL_GUARDED_BY(mutex_) = 0;     // calls of ReadNow()
  uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;  // those for which the files were read
  std::jthread thread_;                            // last: it uses all of the above
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_SECURITY_FILE_WATCH_H_
