#include "tests/support/terminal_program.h"

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "absl/strings/match.h"
#include "tests/support/process.h"

extern char** environ;

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStep = 20;  // milliseconds between two looks at whether it ended

winsize SizeOf(int columns, int lines) {
  winsize size{};
  size.ws_col = static_cast<unsigned short>(columns);
  size.ws_row = static_cast<unsigned short>(lines);
  return size;
}

}  // namespace

TerminalProgram::TerminalProgram(const std::vector<std::string>& argv, int columns, int lines) {
  // All that allocates comes before the fork: other threads may hold the heap's lock.
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::string term = "TERM=xterm-256color";
  std::vector<char*> environment = {term.data()};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!absl::StartsWith(*variable, "TERM=")) environment.push_back(*variable);
  }
  environment.push_back(nullptr);
  const winsize size = SizeOf(columns, lines);
  pid_ = forkpty(&terminal_, nullptr, nullptr, &size);
  if (pid_ < 0) throw std::runtime_error(std::string("forkpty: ") + std::strerror(errno));
  if (pid_ > 0) return;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(arguments[0], arguments.data(), environment.data());
  _exit(127);
}

TerminalProgram::~TerminalProgram() {
  if (!exit_code_.has_value()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(terminal_);
}

void TerminalProgram::Type(const std::string& keys) {
  if (write(terminal_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) {
    throw std::runtime_error("the terminal takes no keys");
  }
}

void TerminalProgram::Resize(int columns, int lines) {
  const winsize size = SizeOf(columns, lines);
  ioctl(terminal_, TIOCSWINSZ, &size);
}

void TerminalProgram::Signal(int signal) {
  if (!exit_code_.has_value()) kill(pid_, signal);
}

// False: there is nothing more to come.
bool TerminalProgram::Read(int timeout_milliseconds) {
  pollfd readable{terminal_, POLLIN, 0};
  if (poll(&readable, 1, timeout_milliseconds) <= 0) return true;
  std::array<char, 65536> buffer;
  const ssize_t count = read(terminal_, buffer.data(), buffer.size());
  if (count <= 0) return false;
  output_.append(buffer.data(), static_cast<size_t>(count));
  return true;
}

bool TerminalProgram::WaitFor(const std::string& text) {
  const Clock::time_point end = Clock::now() + kPatience;
  for (bool more = true; more && Clock::now() < end; more = Read(kStep)) {
    const size_t found = output_.find(text, seen_);
    if (found == std::string::npos) continue;
    seen_ = found + text.size();
    return true;
  }
  return false;
}

bool TerminalProgram::WaitUntilStopped() {
  for (const Clock::time_point end = Clock::now() + kPatience; Clock::now() < end;) {
    Read(kStep);
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG | WUNTRACED) != pid_) continue;
    if (WIFSTOPPED(status)) return true;
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return false;
  }
  return false;
}

std::optional<int> TerminalProgram::WaitForExit() {
  const Clock::time_point end = Clock::now() + kPatience;
  while (!exit_code_.has_value() && Clock::now() < end) {
    const bool more = Read(kStep);
    int status = 0;
    if (waitpid(pid_, &status, more ? WNOHANG : 0) != pid_) continue;
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // What it wrote last is still to be read.
  for (size_t before = SIZE_MAX; before != output_.size();) {
    before = output_.size();
    Read(0);
  }
  return exit_code_;
}

bool TerminalProgram::HasOrdinaryModes() const {
  termios modes{};
  if (tcgetattr(terminal_, &modes) != 0) throw std::runtime_error("the terminal has no modes");
  return (modes.c_lflag & ICANON) != 0 && (modes.c_lflag & ECHO) != 0;
}

}  // namespace stowage
