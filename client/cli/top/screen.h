// A terminal that a program draws on again and again, and leaves as it was. The only place that
// knows escape codes, modes of terminals and signals.
#ifndef STOWAGE_CLIENT_CLI_TOP_SCREEN_H_
#define STOWAGE_CLIENT_CLI_TOP_SCREEN_H_

#include <signal.h>
#include <termios.h>

#include <chrono>
#include <string>
#include <vector>

namespace stowage {

enum class LineStyle { kPlain, kTitle, kAlarm };

// Without line ends, tabs or escape codes.
struct ScreenLine {
  std::string text;
  LineStyle style = LineStyle::kPlain;
};

struct ScreenSize {
  int columns = 80;
  int lines = 24;
};

// Standard output's terminal from its constructor to its destructor: the alternate screen without a
// cursor, keys unbuffered and unseen. While it exists the process takes SIGINT, SIGTERM and SIGHUP
// from Wait(), which also follows suspension (Ctrl-Z) and new sizes; threads that are started
// meanwhile take none of them. One at a time, of one thread.
class Screen {
 public:
  // Whether standard output is a terminal that can do this.
  static bool Possible();

  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // As it is now.
  ScreenSize size() const;

  // In place of what is there. Requires: no more lines, nor wider ones, than size(). False: the
  // terminal is gone.
  bool Show(const std::vector<ScreenLine>& lines);

  enum class Event {
    kTime,    // the deadline has come
    kReady,   // `ready_fd` can be read
    kRedraw,  // the terminal shows something else, or has another size
    kQuit,    // q, Ctrl-C, another signal to end, or the terminal is gone
  };
  Event Wait(std::chrono::steady_clock::time_point deadline, int ready_fd);

 private:
  void Enter();
  void Leave();
  Event TakeSignal();
  bool QuitIsTyped();

  bool has_keys_ = false;  // standard input is a terminal, too, whose modes were
  termios modes_{};
  sigset_t signals_before_{};
  int signal_fd_ = -1;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_TOP_SCREEN_H_
