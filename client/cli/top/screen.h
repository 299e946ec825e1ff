// A full-screen terminal. The only file of the client with escape codes, terminal modes and signal
// handling.
#ifndef STOWAGE_CLIENT_CLI_TOP_SCREEN_H_
#define STOWAGE_CLIENT_CLI_TOP_SCREEN_H_

#include <signal.h>
#include <termios.h>

#include <chrono>
#include <string>
#include <vector>

namespace stowage {

enum class LineStyle { kPlain, kTitle, kAlarm };

// Text without line ends, tabs or escape codes.
struct ScreenLine {
  std::string text;
  LineStyle style = LineStyle::kPlain;
};

struct ScreenSize {
  int columns = 80;
  int lines = 24;
};

// Takes over the terminal of standard output until it is destroyed, and then restores it: the
// alternate screen, no cursor, keys without buffering and echo. It blocks SIGINT, SIGTERM, SIGHUP,
// SIGTSTP, SIGCONT and SIGWINCH in the calling thread and in threads started later; Wait() handles
// them. One object at a time, used by one thread.
class Screen {
 public:
  // Whether standard output is a terminal with these capabilities.
  static bool IsSupported();

  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  ScreenSize size() const;  // now

  // Replaces the contents. Requires: the lines fit size(). Returns false if the terminal is gone.
  bool Show(const std::vector<ScreenLine>& lines);

  enum class Event {
    kTime,    // the deadline has passed
    kReady,   // `ready_fd` is readable
    kRedraw,  // the contents are lost, or the size has changed
    kQuit,    // q, Ctrl-C, another signal to terminate, or the terminal is gone
  };
  Event Wait(std::chrono::steady_clock::time_point deadline, int ready_fd);

 private:
  void Enter();
  void Leave();
  Event HandleSignal();
  bool ReadQuitKey();  // reads the pending keys

  bool has_keys_ = false;  // standard input is a terminal, too
  termios modes_{};        // its modes before
  sigset_t signals_before_{};
  int signal_fd_ = -1;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_TOP_SCREEN_H_
