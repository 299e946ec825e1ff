// The real programs, run by tests: one that ends by itself, and a server that is told to.
#ifndef STOWAGE_TESTS_SUPPORT_PROCESS_H_
#define STOWAGE_TESTS_SUPPORT_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "solver/base/mutex.h"

namespace stowage {

// Longer than anything takes on a slow, busy machine: guards against hangs, decides nothing else.
inline constexpr std::chrono::seconds kPatience{120};

struct ProgramResult {
  int exit_code = -1;  // 128 + signal when one ended it
  std::string out;
  std::string err;
};
// For GoogleTest's failure messages.
std::ostream& operator<<(std::ostream& out, const ProgramResult& result);

// Runs `argv` (argv[0] is a path) to its end, with `input` on standard input. No shell.
// Throws std::runtime_error, the program killed, when it takes longer than kPatience.
ProgramResult RunProgram(const std::vector<std::string>& argv, const std::string& input = "");

// A stowage-server of its own for a test, on a free port of the loopback device. Thread-safe.
class ServerProcess {
 public:
  // Returns once it serves. Throws std::runtime_error with its log when it does not.
  explicit ServerProcess(const std::vector<std::string>& flags = {},
                         const std::string& listen = "127.0.0.1:0");
  // Kills and reaps it if it still runs.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // "127.0.0.1:43211"
  const std::string& address() const { return address_; }

  void Signal(int signal);
  // The exit code, 128 + signal when one ended it; nullopt when it still runs after kPatience.
  // The log is complete afterwards.
  std::optional<int> WaitForExit();

  // What it wrote on standard error so far.
  std::string Log();
  // Waits until a line of the log contains all of `parts`, and returns that line; empty when
  // none does within kPatience.
  std::string WaitForLogLine(const std::vector<std::string>& parts);

 private:
  void Drain(int fd);

  pid_t pid_ = -1;
  std::optional<int> exit_code_;
  std::string address_;
  std::thread drainer_;  // or a full pipe would block the server
  Mutex mutex_;
  CondVar changed_;
  std::string log_ ABSL_GUARDED_BY(mutex_);
  bool log_ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_PROCESS_H_
