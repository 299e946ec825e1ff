#include "client/cli/top/screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

constexpr const char* kEnter = "\x1b[?1049h\x1b[?25l";  // alternate screen, no cursor
constexpr const char* kLeave = "\x1b[?25h\x1b[?1049l";
constexpr const char* kHome = "\x1b[H";
constexpr const char* kClearLine = "\x1b[K";   // from the cursor to its end
constexpr const char* kClearBelow = "\x1b[J";  // from the cursor to the screen's end
constexpr const char* kNormal = "\x1b[0m";

const char* CodeOf(LineStyle style) {
  switch (style) {
    case LineStyle::kTitle:
      return "\x1b[1m";  // bold
    case LineStyle::kAlarm:
      return "\x1b[7m";  // reverse
    case LineStyle::kPlain:
      break;
  }
  return "";
}

// Writes the whole text, however often the kernel takes less. Returns false if the terminal is
// gone.
bool WriteAll(const std::string& text) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = write(STDOUT_FILENO, text.data() + written, text.size() - written);
    if (count < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (count > 0) written += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

bool Screen::IsSupported() {
  const char* const term = std::getenv("TERM");
  const std::string name = term != nullptr ? term : "";
  return isatty(STDOUT_FILENO) != 0 && !name.empty() && name != "dumb";
}

// Signals are blocked first and read from signal_fd_, so none can arrive between Enter() and Wait()
// and leave the terminal in its changed mode.
Screen::Screen() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH}) {
    sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, &signals_before_);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  has_keys_ = tcgetattr(STDIN_FILENO, &modes_) == 0;
  Enter();
}

Screen::~Screen() {
  Leave();
  if (signal_fd_ >= 0) close(signal_fd_);
  pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr);
}

void Screen::Enter() {
  if (has_keys_) {
    // ICANON off: keys arrive without Enter. ISIG stays on: Ctrl-C is SIGINT.
    termios modes = modes_;
    modes.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    modes.c_cc[VMIN] = 1;
    modes.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &modes);
  }
  (void)WriteAll(kEnter);
}

void Screen::Leave() {
  (void)WriteAll(kLeave);
  if (has_keys_) tcsetattr(STDIN_FILENO, TCSADRAIN, &modes_);
}

ScreenSize Screen::size() const {
  ScreenSize size;
  winsize window{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0) return size;
  if (window.ws_col > 0) size.columns = window.ws_col;
  if (window.ws_row > 0) size.lines = window.ws_row;
  return size;
}

bool Screen::Show(const std::vector<ScreenLine>& lines) {
  // One write for the whole screen, each line cleared to its end, so that it does not flicker.
  std::string text = kHome;
  for (size_t i = 0; i < lines.size(); ++i) {
    absl::StrAppend(&text, i > 0 ? "\r\n" : "", CodeOf(lines[i].style), lines[i].text, kNormal);
    absl::StrAppend(&text, kClearLine);
  }
  absl::StrAppend(&text, kClearBelow);
  return WriteAll(text);
}

// Signals come before keys and keys before `ready_fd`, so that a fast server cannot delay a quit.
Screen::Event Screen::Wait(std::chrono::steady_clock::time_point deadline, int ready_fd) {
  std::array<pollfd, 3> polled = {
      {{signal_fd_, POLLIN, 0}, {ready_fd, POLLIN, 0}, {has_keys_ ? STDIN_FILENO : -1, POLLIN, 0}}};
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    // poll() takes an int: a deadline beyond that (24 days) is waited for in several rounds.
    const auto milliseconds = std::clamp<int64_t>(left.count(), 0, INT32_MAX);
    const int ready = poll(polled.data(), polled.size(), static_cast<int>(milliseconds));
    if (ready == 0 && left.count() <= INT32_MAX) return Event::kTime;
    if (ready <= 0) continue;
    if (polled[0].revents != 0) return HandleSignal();
    if (polled[2].revents != 0 && ReadQuitKey()) return Event::kQuit;
    if (polled[1].revents != 0) return Event::kReady;
  }
}

Screen::Event Screen::HandleSignal() {
  signalfd_siginfo info{};
  if (read(signal_fd_, &info, sizeof(info)) != sizeof(info)) return Event::kRedraw;
  switch (static_cast<int>(info.ssi_signo)) {
    case SIGTSTP:
      Leave();
      raise(SIGSTOP);  // returns after SIGCONT
      Enter();
      return Event::kRedraw;
    case SIGCONT:  // after a SIGSTOP from another process the shell has used the terminal
      Enter();
      return Event::kRedraw;
    case SIGWINCH:
      return Event::kRedraw;
    default:
      return Event::kQuit;
  }
}

// The end of standard input quits as well: no key can follow.
bool Screen::ReadQuitKey() {
  std::array<char, 64> keys{};
  const ssize_t count = read(STDIN_FILENO, keys.data(), keys.size());
  if (count < 0) return errno != EINTR && errno != EAGAIN;
  const auto end = keys.begin() + count;
  return count == 0 || std::any_of(keys.begin(), end, [](char c) { return c == 'q' || c == 'Q'; });
}

}  // namespace stowage
