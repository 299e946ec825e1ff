#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

extern char** environ;

namespace stowage {
namespace {

[[noreturn]] void Fail(absl::string_view what) {
  throw std::runtime_error(absl::StrCat(what, ": ", std::strerror(errno)));
}

// A file descriptor that closes itself.
class Fd {
 public:
  explicit Fd(int fd, const char* what) : fd_(fd) {
    if (fd < 0) Fail(what);
  }
  ~Fd() { close(fd_); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

struct StandardFds {
  int in;
  int out;
  int err;
};

// Starts the program with no other descriptors of ours and no signals blocked or ignored.
pid_t Spawn(const std::vector<std::string>& argv, const StandardFds& fds) {
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fds.in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fds.out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fds.err, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  errno = error;
  if (error != 0) Fail("cannot start " + argv[0]);
  return pid;
}

int ExitCode(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int Reap(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return ExitCode(status);
}

// Reaps the process if it ends within kPatience. A pidfd, since no other wait has a timeout.
std::optional<int> ReapWithin(pid_t pid) {
  const Fd ended(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)), "pidfd_open");
  pollfd poll_fd{ended.get(), POLLIN, 0};
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    const int ready = poll(&poll_fd, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready > 0) return Reap(pid);
    if (ready == 0) return std::nullopt;
    if (errno != EINTR) Fail("poll");
  }
}

// A file without a name: a program that neither reads nor is read cannot block on it.
int MemoryFile() { return memfd_create("stowage-test", MFD_CLOEXEC); }

void WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0) Fail("write");
    text.remove_prefix(static_cast<size_t>(written));
  }
  if (lseek(fd, 0, SEEK_SET) != 0) Fail("lseek");
}

std::string ReadFromStart(int fd) {
  std::string text;
  std::array<char, 65536> buffer;
  ssize_t count = 0;
  while ((count = pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(text.size()))) > 0) {
    text.append(buffer.data(), static_cast<size_t>(count));
  }
  return text;
}

// The whole lines of `log` that contain all of `parts`: the first of them, or nothing.
std::string FindLine(absl::string_view log, const std::vector<std::string>& parts) {
  log = log.substr(0, log.rfind('\n') + 1);
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    const auto in_line = [line](const std::string& part) { return absl::StrContains(line, part); };
    if (!line.empty() && std::all_of(parts.begin(), parts.end(), in_line)) return std::string(line);
  }
  return "";
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const ProgramResult& result) {
  return out << "exit code " << result.exit_code << "\nstandard output:\n"
             << result.out << "standard error:\n"
             << result.err;
}

ProgramResult RunProgram(const std::vector<std::string>& argv, const std::string& input) {
  const Fd in(MemoryFile(), "memfd_create");
  const Fd out(MemoryFile(), "memfd_create");
  const Fd err(MemoryFile(), "memfd_create");
  WriteAll(in.get(), input);
  const pid_t pid = Spawn(argv, {in.get(), out.get(), err.get()});
  const std::optional<int> exit_code = ReapWithin(pid);
  if (!exit_code.has_value()) {
    kill(pid, SIGKILL);
    Reap(pid);
    throw std::runtime_error(
        absl::StrCat("still running: ", absl::StrJoin(argv, " "), "\n", ReadFromStart(err.get())));
  }
  return {*exit_code, ReadFromStart(out.get()), ReadFromStart(err.get())};
}

BackgroundProgram::BackgroundProgram(const std::vector<std::string>& argv) {
  std::array<int, 2> pipe_fds{};
  if (pipe2(pipe_fds.data(), O_CLOEXEC) != 0) Fail("pipe2");
  {
    const Fd write_end(pipe_fds[1], "pipe2");
    const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC), "/dev/null");
    pid_ = Spawn(argv, {null.get(), null.get(), write_end.get()});
  }
  drainer_ = std::thread([this, fd = pipe_fds[0]] { Drain(fd); });
}

std::string Program(absl::string_view name) {
  const char* const folder = std::getenv("STOWAGE_PROGRAMS");
  return absl::StrCat(folder != nullptr ? folder : STOWAGE_PROGRAMS_FOLDER, "/", name);
}

std::string ValueOf(const std::string& line, const std::string& key) {
  const size_t begin = line.find(key) + key.size();
  return line.substr(begin, line.find(' ', begin) - begin);
}

namespace {

std::vector<std::string> ServerCommand(const std::vector<std::string>& flags,
                                       const std::string& listen) {
  std::vector<std::string> argv = {Program("stowage-server"), "--listen", listen};
  // Nothing that two servers would share, and no wait for a balancer, but for tests that say so.
  for (const auto& [flag, value] :
       {std::pair("--http", "127.0.0.1:0"), std::pair("--cache-dir", "none"),
        std::pair("--lame-duck", "0s")}) {
    if (std::find(flags.begin(), flags.end(), flag) != flags.end()) continue;
    argv.insert(argv.end(), {flag, value});
  }
  argv.insert(argv.end(), flags.begin(), flags.end());
  return argv;
}

}  // namespace

ServerProcess::ServerProcess(const std::vector<std::string>& flags, const std::string& listen)
    : BackgroundProgram(ServerCommand(flags, listen)) {
  const std::string line = WaitForLogLine({"event=serving", " address="});
  if (line.empty()) throw std::runtime_error("stowage-server does not serve:\n" + Log());
  address_ = ValueOf(line, " address=");
  http_address_ = ValueOf(line, " http=");
}

BackgroundProgram::~BackgroundProgram() {
  if (!exit_code_.has_value()) {
    kill(pid_, SIGKILL);
    Reap(pid_);
  }
  if (drainer_.joinable()) drainer_.join();
}

void BackgroundProgram::Signal(int signal) {
  if (!exit_code_.has_value()) kill(pid_, signal);
}

std::optional<int> BackgroundProgram::WaitForExit() {
  if (exit_code_.has_value()) return exit_code_;
  exit_code_ = ReapWithin(pid_);
  if (exit_code_.has_value()) drainer_.join();
  return exit_code_;
}

std::string BackgroundProgram::Log() {
  MutexLock lock(mutex_);
  return log_;
}

std::string BackgroundProgram::WaitForLogLine(const std::vector<std::string>& parts) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(mutex_);
  for (;;) {
    std::string line = FindLine(log_, parts);
    if (!line.empty() || log_ended_) return line;
    if (!changed_.WaitUntil(mutex_, deadline)) return FindLine(log_, parts);
  }
}

void BackgroundProgram::Drain(int fd) {
  const Fd read_end(fd, "pipe2");
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t count = read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    MutexLock lock(mutex_);
    if (count > 0) log_.append(buffer.data(), static_cast<size_t>(count));
    if (count <= 0) log_ended_ = true;
    changed_.SignalAll();
    if (count <= 0) return;
  }
}

}  // namespace stowage
