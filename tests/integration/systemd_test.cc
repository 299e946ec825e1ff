// The server as systemd's service: what it tells its manager, and the unit that starts it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/integration/rpc.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Optional;

// Stands where systemd would: a socket at $NOTIFY_SOCKET.
class Manager {
 public:
  Manager() : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error(absl::StrCat(path(), ": ", std::strerror(errno)));
    }
  }
  ~Manager() { close(fd_); }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  std::string path() const { return folder_.Path("notify"); }

  // The next message; empty when none comes within `patience`.
  std::string Next(std::chrono::milliseconds patience = kPatience) const {
    pollfd poll_fd{fd_, POLLIN, 0};
    if (poll(&poll_fd, 1, static_cast<int>(patience.count())) != 1) return "";
    std::array<char, 4096> buffer;
    const ssize_t count = recv(fd_, buffer.data(), buffer.size(), 0);
    return std::string(buffer.data(), static_cast<size_t>(std::max<ssize_t>(count, 0)));
  }

  std::vector<std::string> ServerCommand(const std::vector<std::string>& flags) const {
    std::vector<std::string> command = {"/usr/bin/env",
                                        "NOTIFY_SOCKET=" + path(),
                                        Program("stowage-server"),
                                        "--http",
                                        "none",
                                        "--cache-dir",
                                        "none"};
    command.insert(command.end(), flags.begin(), flags.end());
    return command;
  }

 private:
  const TempFolder folder_;
  const int fd_;
};

TEST(ServiceManager, IsToldOnceItServesAndAsSoonAsItStops) {
  const Manager manager;
  BackgroundProgram server(
      manager.ServerCommand({"--listen", "127.0.0.1:0", "--threads", "1", "--short-threads", "0",
                             "--queue-length", "0", "--lame-duck", "0.5s", "--grace", "70s"}));
  const std::string ready = manager.Next();
  ASSERT_THAT(ready, HasSubstr("READY=1\nSTATUS=Serving at 127.0.0.1:")) << server.Log();
  const std::string address = ValueOf(ready, "Serving at ");
  const Remote remote(address);
  EXPECT_EQ(remote.Health(), HealthState::SERVING);
  EXPECT_TRUE(remote.Answers());

  const auto running = Occupy(remote, LongSolveRequest());
  EXPECT_EQ(manager.Next(std::chrono::milliseconds(0)), "") << "nothing has changed";
  server.Signal(SIGTERM);
  // The lame duck, the grace period and ten seconds, whatever the unit says.
  EXPECT_THAT(manager.Next(),
              AllOf(HasSubstr("STOPPING=1\n"), HasSubstr("\nEXTEND_TIMEOUT_USEC=80500000")));
  EXPECT_FALSE(running->ended());
  running->Cancel();
  EXPECT_THAT(server.WaitForExit(), Optional(0)) << server.Log();
}

TEST(ServiceManager, IsToldOfAReloadAndOfItsEnd) {
  const Manager manager;
  BackgroundProgram server(manager.ServerCommand({"--listen", "127.0.0.1:0"}));
  ASSERT_THAT(manager.Next(), HasSubstr("READY=1\n")) << server.Log();
  server.Signal(SIGHUP);
  EXPECT_THAT(manager.Next(), HasSubstr("RELOADING=1\nMONOTONIC_USEC="));
  EXPECT_THAT(manager.Next(), HasSubstr("READY=1\nSTATUS=Serving at 127.0.0.1:"));
  EXPECT_NE(server.WaitForLogLine({"event=reloaded"}), "");
}

TEST(ServiceManager, IsNotToldOfAServerThatCannotStart) {
  ServerProcess other;
  const Manager manager;
  BackgroundProgram server(manager.ServerCommand({"--listen", other.address()}));
  EXPECT_THAT(server.WaitForExit(), Optional(1));
  EXPECT_EQ(manager.Next(std::chrono::milliseconds(0)), "");
}

TEST(ServiceManager, ThatDoesNotListenIsNoReasonNotToServe) {
  const TempFolder folder;
  BackgroundProgram server({"/usr/bin/env", "NOTIFY_SOCKET=" + folder.Path("nobody"),
                            Program("stowage-server"), "--listen", "127.0.0.1:0", "--http", "none",
                            "--cache-dir", "none"});
  EXPECT_NE(server.WaitForLogLine({"level=warning", "event=notify_failed", "$NOTIFY_SOCKET"}), "");
  const std::string line = server.WaitForLogLine({"event=serving"});
  EXPECT_TRUE(Remote(ValueOf(line, " address=")).Answers());
}

// The unit as it is installed, with the server that was built in its place.
class Unit {
 public:
  explicit Unit(const std::string& more = "") {
    const std::string text = ReadFile(STOWAGE_DEPLOY "/systemd/stowage-server.service");
    folder_.Write("stowage-server.service", WithServer(text) + more);
  }

  void AddDropIn(const std::string& name) const {
    std::filesystem::create_directory(folder_.Path("stowage-server.service.d"));
    folder_.Write("stowage-server.service.d/" + name,
                  WithServer(ReadFile(STOWAGE_DEPLOY "/systemd/" + name)));
  }

  // It says what it does not like, and exits 0 all the same.
  std::string Complaints() const {
    const ProgramResult result = RunProgram({"/usr/bin/systemd-analyze", "verify", path()});
    EXPECT_EQ(result.exit_code, 0) << result;
    return result.err;
  }

  std::string path() const { return folder_.Path("stowage-server.service"); }

 private:
  static std::string WithServer(const std::string& text) {
    return absl::StrReplaceAll(text,
                               {{"/usr/local/bin/stowage-server", Program("stowage-server")}});
  }

  const TempFolder folder_;
};

TEST(SystemdUnit, IsUnderstoodWhole) {
  EXPECT_EQ(Unit().Complaints(), "");
  EXPECT_THAT(Unit("[Service]\nTimeoutStopsec=1\n").Complaints(), HasSubstr("TimeoutStopsec"));
}

TEST(SystemdUnit, IsUnderstoodWithEveryDropIn) {
  const Unit unit;
  unit.AddDropIn("tls.conf");
  EXPECT_EQ(unit.Complaints(), "");
}

// Of 100; 96 without any hardening.
TEST(SystemdUnit, ExposesLittle) {
  const Unit unit;
  const ProgramResult result = RunProgram({"/usr/bin/systemd-analyze", "security", "--offline=true",
                                           "--no-pager", "--threshold=15", unit.path()});
  EXPECT_EQ(result.exit_code, 0) << result;
  const Unit weakened("[Service]\nDynamicUser=no\nProtectSystem=no\nSystemCallFilter=\n");
  EXPECT_NE(RunProgram({"/usr/bin/systemd-analyze", "security", "--offline=true", "--no-pager",
                        "--threshold=15", weakened.path()})
                .exit_code,
            0);
}

}  // namespace
}  // namespace stowage
