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

// The path of one of the programs that this build made: Program("stowage-server"). The environment
// variable STOWAGE_PROGRAMS names another build's folder, so that one build's tests can run
// another's programs, those with sanitizers above all.
std::string Program(absl::string_view name);

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

// A program that runs beside a test. Thread-safe.
class BackgroundProgram {
 public:
  // Starts `argv` (argv[0] is a path) without input; what it writes on standard error is its log.
  explicit BackgroundProgram(const std::vector<std::string>& argv);
  // Kills and reaps it if it still runs.
  ~BackgroundProgram();
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;

  pid_t pid() const { return pid_; }
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
  std::thread drainer_;  // or a full pipe would block the program
  Mutex mutex_;
  CondVar changed_;
  std::string log_ ABSL_GUARDED_BY(mutex_);
  bool log_ended_ ABSL_GUARDED_BY(mutex_) = false;
};

// What follows `key` in a line, up to the next space: ValueOf(line, "address=").
std::string ValueOf(const std::string& line, const std::string& key);

// A stowage-server of its own for a test, on free ports of the loopback device. It drains as
// soon as it is told to unless `flags` have --lame-duck. Thread-safe.
class ServerProcess : public BackgroundProgram {
 public:
  // Returns once it serves. Throws std::runtime_error with its log when it does not.
  explicit ServerProcess(const std::vector<std::string>& flags = {},
                         const std::string& listen = "127.0.0.1:0");

  // "127.0.0.1:43211"
  const std::string& address() const { return address_; }
  // Of /metrics and the like.
  const std::string& http_address() const { return http_address_; }

 private:
  std::string address_;
  std::string http_address_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_PROCESS_H_
