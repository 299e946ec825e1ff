#include "server/net/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "server/net/peer.h"
#include "solver/base/mutex.h"
#include "tests/integration/raw_client.h"
#include "tests/support/files.h"

namespace stowage::listener_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::chrono::seconds kLong{60};

TEST(Listener, HandsConnectionsOver) {
  auto listener = Listener::Start("127.0.0.1:0", {}, [](int fd) {
    EXPECT_EQ(write(fd, "hello", 5), 5);
    close(fd);
  });
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_THAT((*listener)->address(), StartsWith("127.0.0.1:"));
  RawSocket socket((*listener)->address());
  EXPECT_EQ(socket.Receive(kLong), "hello");
}

TEST(Listener, OfAllAddressesTakesIpv4AsWell) {
  auto listener = Listener::Start("[::]:0", {}, [](int fd) {
    EXPECT_EQ(PeerOf(fd).host, "127.0.0.1") << "as on a socket of IPv4";
    EXPECT_EQ(write(fd, "hello", 5), 5);
    close(fd);
  });
  ASSERT_TRUE(listener.ok()) << listener.status();
  const std::string port = (*listener)->address().substr(std::string("[::]").size());
  RawSocket socket("127.0.0.1" + port);
  EXPECT_EQ(socket.Receive(kLong), "hello");
}

// From now on the calling thread, and those that it starts, find a system without IPv6.
void TakeIpv6Away() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof(program) / sizeof(program[0]), program};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

TEST(Listener, OfAllAddressesTakesIpv4AloneWhereThereIsNoIpv6) {
  std::thread([] {
    TakeIpv6Away();
    ASSERT_EQ(socket(AF_INET6, SOCK_STREAM, 0), -1);
    auto listener = Listener::Start("[::]:0", {}, [](int fd) {
      EXPECT_EQ(write(fd, "hello", 5), 5);
      close(fd);
    });
    ASSERT_TRUE(listener.ok()) << listener.status();
    const std::string port = (*listener)->address().substr(std::string("[::]").size());
    RawSocket socket("127.0.0.1" + port);
    EXPECT_EQ(socket.Receive(kLong), "hello");
    EXPECT_FALSE(Listener::Start("[::1]:0", {}, [](int fd) { close(fd); }).ok());
  }).join();
}

std::string Refusal(const std::string& address, PortSharing sharing) {
  const auto listener = Listener::Start(address, {.sharing = sharing}, [](int fd) { close(fd); });
  EXPECT_FALSE(listener.ok()) << address;
  return std::string(listener.status().message());
}

TEST(Listener, SharesItsPortWithOneThatSharesItToo) {
  const auto start = [](const std::string& address, PortSharing sharing) {
    return Listener::Start(address, {.sharing = sharing}, [](int fd) { close(fd); });
  };
  const auto first = start("127.0.0.1:0", PortSharing::kShared);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = start((*first)->address(), PortSharing::kShared);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->address(), (*first)->address());
  EXPECT_THAT(Refusal((*first)->address(), PortSharing::kAlone), HasSubstr("already in use"));
  const auto alone = start("127.0.0.1:0", PortSharing::kAlone);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_THAT(Refusal((*alone)->address(), PortSharing::kShared),
              AllOf(HasSubstr("already in use"), HasSubstr("--reuse-port")));
}

// Connections that wait to be accepted at 127.0.0.1:PORT, as the system shows them: "…:1F90
// 00000000:0000 0A 00000000:00000005", in hexadecimal digits; -1: it does not show them.
int WaitingAt(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  const std::string listens = absl::StrFormat(":%04X 00000000:0000 0A 00000000:", port);
  const std::string sockets = ReadFile("/proc/net/tcp");
  const size_t found = sockets.find(listens);
  if (found == std::string::npos) return -1;
  return std::stoi(sockets.substr(found + listens.size(), 8), nullptr, 16);
}

// More wait than it accepts at once. The second one starts once they do, and has none of them.
TEST(Listener, ServesThoseWhoWaitBeforeItLeavesThePortToAnother) {
  constexpr int kCallers = 300;
  std::promise<void> busy;
  std::promise<void> go;
  std::atomic<int> accepted = 0;
  const auto first = Listener::Start("127.0.0.1:0", {.sharing = PortSharing::kShared}, [&](int fd) {
    if (accepted++ == 0) {
      busy.set_value();
      go.get_future().wait();
    }
    EXPECT_EQ(write(fd, "first", 5), 5);
    close(fd);
  });
  ASSERT_TRUE(first.ok()) << first.status();
  std::vector<RawSocket> callers;
  callers.emplace_back((*first)->address());
  busy.get_future().wait();
  for (int i = 1; i < kCallers; ++i) callers.emplace_back((*first)->address());
  const auto end = std::chrono::steady_clock::now() + kLong;
  for (int waiting = 0; waiting >= 0 && waiting < kCallers - 1;) {
    waiting = WaitingAt((*first)->address());
    if (std::chrono::steady_clock::now() > end) break;
  }
  const auto second =
      Listener::Start((*first)->address(), {.sharing = PortSharing::kShared}, [](int fd) {
        EXPECT_EQ(write(fd, "second", 6), 6);
        close(fd);
      });
  EXPECT_TRUE(second.ok()) << second.status();
  std::promise<void> stopping;
  std::thread stopper([&] {
    stopping.set_value();
    (*first)->StopListening();
  });
  stopping.get_future().wait();
  go.set_value();
  stopper.join();
  EXPECT_EQ(accepted, kCallers);
  for (RawSocket& caller : callers) EXPECT_EQ(caller.Receive(kLong), "first");
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(RawSocket((*first)->address()).Receive(kLong), "second");
  }
}

TEST(Listener, ThatStoppedListeningRefusesConnectionsWhereNobodySharesItsPort) {
  const auto listener = Listener::Start("127.0.0.1:0", {}, [](int fd) { close(fd); });
  ASSERT_TRUE(listener.ok()) << listener.status();
  for (int i = 0; i < 2; ++i) (*listener)->StopListening();
  EXPECT_THROW(RawSocket((*listener)->address()), std::runtime_error);
}

// What a listener reported.
class Record final : public ConnectionObserver {
 public:
  void ConnectionAccepted(const std::string&) override { ++accepted; }
  void ConnectionRefused(const RefusedConnection& connection) override {
    MutexLock lock(mutex_);
    reasons_.push_back(connection.reason);
    EXPECT_THAT(connection.peer, StartsWith("ipv4:127.0.0."));
  }
  void ConnectionCutOff(const CutConnection& connection) override {
    MutexLock lock(mutex_);
    cut_off_.push_back(connection.reason);
  }
  void HandshakeFailed(const FailedHandshake&) override {}
  void ReaderRefused(const RefusedReader&) override {}
  std::vector<std::string> reasons() {
    MutexLock lock(mutex_);
    return reasons_;
  }
  std::vector<std::string> cut_off() {
    MutexLock lock(mutex_);
    return cut_off_;
  }

  std::atomic<int> accepted = 0;

 private:
  Mutex mutex_;
  std::vector<std::string> reasons_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> cut_off_ ABSL_GUARDED_BY(mutex_);
};

TEST(Listener, ClosesConnectionsBeyondTheLastDescriptor) {
  Record record;
  std::atomic<int> handed_over = 0;
  {
    // Descriptors below that are those of this test.
    auto listener = Listener::Start("127.0.0.1:0", {.max_descriptors = 3, .observer = &record},
                                    [&](int) { ++handed_over; });
    ASSERT_TRUE(listener.ok()) << listener.status();
    for (int i = 0; i < 10; ++i) {
      RawSocket socket((*listener)->address());
      EXPECT_TRUE(socket.ClosedWithin(kLong));
    }
  }
  EXPECT_EQ(handed_over, 0);
  EXPECT_EQ(record.accepted, 0);
  EXPECT_EQ(record.reasons(), std::vector<std::string>(10, "descriptors"));
}

TEST(Listener, LimitsTheConnectionsOfAHostButNotOfOthers) {
  Record record;
  std::vector<int> held;  // by the listener's thread
  {
    auto listener =
        Listener::Start("127.0.0.1:0",
                        {.host_connections = 2,
                         .is_exempt = [](const std::string& from) { return from == "127.0.0.3"; },
                         .observer = &record},
                        [&held](int fd) {
                          EXPECT_EQ(write(fd, "hello", 5), 5);
                          held.push_back(fd);
                        });
    ASSERT_TRUE(listener.ok()) << listener.status();
    std::vector<RawSocket> sockets;
    for (const char* from : {"127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2", "127.0.0.3",
                             "127.0.0.3", "127.0.0.3"}) {
      EXPECT_EQ(sockets.emplace_back((*listener)->address(), from).Receive(kLong), "hello") << from;
    }
    for (const char* from : {"127.0.0.1", "127.0.0.2"}) {
      EXPECT_TRUE(RawSocket((*listener)->address(), from).ClosedWithin(kLong)) << from;
    }
  }
  EXPECT_EQ(record.accepted, 7);
  EXPECT_EQ(record.reasons(), std::vector<std::string>(2, "host_limit"));
  for (const int fd : held) close(fd);
}

// Nobody reads here, so that what the system has received is thrown away with the connection.
TEST(Listener, CutsOffAConnectionThatSendsMuchForNothingAndBarsItsHost) {
  Record record;
  ConnectionAccounts accounts;
  std::vector<int> held;  // by the listener's thread
  {
    auto listener =
        Listener::Start("127.0.0.1:0",
                        {.accounts = &accounts,
                         .streams_of = [](const std::string&) { return StreamTotals(); },
                         .governor = {.silent_bytes = 10'000},
                         .observer = &record},
                        [&held](int fd) { held.push_back(fd); });
    ASSERT_TRUE(listener.ok()) << listener.status();
    RawSocket other((*listener)->address(), "127.0.0.3");
    RawSocket flood((*listener)->address(), "127.0.0.2");
    EXPECT_TRUE(flood.Send(std::string(30'000, 'x')));
    EXPECT_TRUE(flood.ClosedWithin(kLong));
    EXPECT_TRUE(RawSocket((*listener)->address(), "127.0.0.2").ClosedWithin(kLong));
    EXPECT_FALSE(other.ClosedWithin(std::chrono::milliseconds(0)));
  }
  EXPECT_EQ(record.cut_off(), std::vector<std::string>{"no_calls"});
  EXPECT_EQ(record.reasons(), std::vector<std::string>{"barred"});
  for (const int fd : held) close(fd);
}

// The connections that a listener handed over, in that order.
class HandedOver {
 public:
  ~HandedOver() {
    for (const int fd : fds_) close(fd);
  }
  void Add(int fd) {
    MutexLock lock(mutex_);
    fds_.push_back(fd);
    changed_.SignalAll();
  }
  // Until so many bytes, which nobody reads, have arrived on the first one.
  void WaitForBytesOfFirst(size_t bytes) {
    MutexLock lock(mutex_);
    int arrived = 0;
    while (static_cast<size_t>(arrived) < bytes) {
      ASSERT_EQ(ioctl(fds_.at(0), FIONREAD, &arrived), 0);
      std::this_thread::yield();
    }
  }
  // The peers of the first `count`, once there are so many.
  std::vector<Peer> WaitFor(size_t count) {
    MutexLock lock(mutex_);
    while (fds_.size() < count) changed_.Wait(mutex_);
    std::vector<Peer> peers;
    for (const int fd : fds_) peers.push_back(PeerOf(fd));
    return peers;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<int> fds_ ABSL_GUARDED_BY(mutex_);
};

std::vector<std::string> HostsOf(const std::vector<Peer>& peers) {
  std::vector<std::string> hosts;
  for (const Peer& peer : peers) hosts.push_back(peer.host);
  return hosts;
}

// The first has sent much, of which nobody knows what it is. The one that needs no turn comes after
// the others, which therefore have been accepted once it is handed over.
TEST(Listener, HandsOverConnectionsInTurn) {
  constexpr const char* kNeedsNone = "127.0.0.9";
  ConnectionAccounts accounts;
  HandedOver handed_over;
  auto listener =
      Listener::Start("127.0.0.1:0",
                      {.is_exempt = [=](const std::string& from) { return from == kNeedsNone; },
                       .accounts = &accounts,
                       .streams_of = [](const std::string&) { return StreamTotals(); },
                       .longest_turn = std::chrono::hours(1)},
                      [&handed_over](int fd) { handed_over.Add(fd); });
  ASSERT_TRUE(listener.ok()) << listener.status();
  const std::string& address = (*listener)->address();
  RawSocket first(address, "127.0.0.2");
  const Peer peer = handed_over.WaitFor(1)[0];
  constexpr size_t kMuch = 30'000;
  EXPECT_TRUE(first.Send(std::string(kMuch, 'x')));
  handed_over.WaitForBytesOfFirst(kMuch);
  RawSocket second(address, "127.0.0.3");
  RawSocket other(address, kNeedsNone);
  EXPECT_THAT(HostsOf(handed_over.WaitFor(2)), testing::ElementsAre("127.0.0.2", kNeedsNone));

  accounts.Of(peer.text)->Begin(/*request_bytes=*/kMuch);
  EXPECT_EQ(handed_over.WaitFor(3)[2].host, "127.0.0.3");
  EXPECT_TRUE(second.Send(std::string(kMuch, 'x')));
  RawSocket last(address, "127.0.0.4");
  (*listener)->StopListening();
  EXPECT_EQ(handed_over.WaitFor(4)[3].host, "127.0.0.4") << "nobody waits when the server leaves";
}

// Setting up a connection costs more than closing it.
TEST(Listener, LimitsHowOftenAHostConnects) {
  Record record;
  {
    auto listener = Listener::Start("127.0.0.1:0", {.host_connections = 2, .observer = &record},
                                    [](int fd) { close(fd); });
    ASSERT_TRUE(listener.ok()) << listener.status();
    for (int i = 0; i < ListenerOptions::kMinOpened + 1000; ++i) {
      EXPECT_TRUE(RawSocket((*listener)->address()).ClosedWithin(kLong));
    }
    EXPECT_TRUE(RawSocket((*listener)->address(), "127.0.0.2").ClosedWithin(kLong));
  }
  EXPECT_GE(record.accepted, ListenerOptions::kMinOpened + 1);
  EXPECT_THAT(record.reasons(), testing::Contains("host_rate"));
  EXPECT_EQ(record.accepted + static_cast<int>(record.reasons().size()),
            ListenerOptions::kMinOpened + 1001);
}

// A live server keeps its socket; the file of a server that was killed is replaced.
TEST(Listener, ReplacesOnlyTheSocketFileOfADeadServer) {
  const TempFolder folder;
  const std::string address = "unix:" + folder.Path("socket");
  const auto start = [&address] { return Listener::Start(address, {}, [](int fd) { close(fd); }); };
  {
    auto first = start();
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_THAT(std::string(start().status().message()), HasSubstr("already in use"));
    struct stat left {};
    EXPECT_EQ(lstat(folder.Path("socket").c_str(), &left), 0);  // it is still there
  }
  EXPECT_TRUE(start().ok());
}

TEST(Listener, ReportsWhyItCannotListen) {
  auto first = Listener::Start("127.0.0.1:0", {}, [](int fd) { close(fd); });
  ASSERT_TRUE(first.ok());
  const auto refusal = [](const std::string& address) {
    const auto listener = Listener::Start(address, {}, [](int fd) { close(fd); });
    EXPECT_FALSE(listener.ok());
    return std::string(listener.status().message());
  };
  EXPECT_THAT(refusal((*first)->address()),
              AllOf(HasSubstr((*first)->address()), HasSubstr("already in use"),
                    HasSubstr("choose another")));
  EXPECT_THAT(refusal("no such host:1"), HasSubstr("write host:port"));
  EXPECT_THAT(refusal(std::string("unix:").append(200, 'x')), HasSubstr("longer than 107 bytes"));
  EXPECT_THAT(refusal("unix:/no/such/folder/socket"), HasSubstr("check the directory"));
}

}  // namespace
}  // namespace stowage::listener_test
