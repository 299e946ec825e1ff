// A program on a terminal of its own, as a person would use it.
#ifndef STOWAGE_TESTS_SUPPORT_TERMINAL_PROGRAM_H_
#define STOWAGE_TESTS_SUPPORT_TERMINAL_PROGRAM_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace stowage {

// Standard input, output and error are a pseudo-terminal that controls the program. Not
// thread-safe.
class TerminalProgram {
 public:
  // Starts `argv` (argv[0] is a path). Throws std::runtime_error.
  TerminalProgram(const std::vector<std::string>& argv, int columns, int lines);
  // Kills and reaps it if it still runs.
  ~TerminalProgram();
  TerminalProgram(const TerminalProgram&) = delete;
  TerminalProgram& operator=(const TerminalProgram&) = delete;

  // Keys; "\x03" is Ctrl-C, "\x1a" Ctrl-Z.
  void Type(const std::string& keys);
  void Resize(int columns, int lines);
  void Signal(int signal);

  // Waits until it has written `text` after what was waited for before; false when it has not
  // within kPatience, or has ended.
  bool WaitFor(const std::string& text);
  // Until it is stopped by a signal; false when it ends.
  bool WaitUntilStopped();
  // Its exit code, 128 + signal when one ended it; nullopt when it still runs after kPatience.
  std::optional<int> WaitForExit();

  // All that it wrote so far.
  const std::string& output() const { return output_; }
  // Whether the terminal shows what is typed and waits for whole lines, as a shell leaves it.
  bool HasOrdinaryModes() const;

 private:
  bool Read(int timeout_milliseconds);

  int terminal_ = -1;
  pid_t pid_ = -1;
  std::optional<int> exit_code_;
  std::string output_;
  size_t seen_ = 0;  // of it, by WaitFor()
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_TERMINAL_PROGRAM_H_
