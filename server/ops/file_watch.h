// Tells when files that operators replace while the server runs have been replaced.
#ifndef STOWAGE_SERVER_OPS_FILE_WATCH_H_
#define STOWAGE_SERVER_OPS_FILE_WATCH_H_

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace stowage {

// Looks at the files every `pause` and calls `changed`, on a thread of its own, when one of them is
// another file or has another content than at the last look, or has come or gone. It looks at what
// a name leads to, so that exchanging a link counts. Until the destructor, which joins the thread.
class FileWatch {
 public:
  FileWatch(std::vector<std::string> paths, std::function<void()> changed,
            std::chrono::milliseconds pause = std::chrono::seconds(1));

 private:
  std::jthread thread_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_OPS_FILE_WATCH_H_
