#include "server/observe/log_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;
using testing::EndsWith;
using testing::StartsWith;

constexpr size_t kMaxBytes = 100'000;
constexpr seconds kPatience{120};

std::string DroppedLine(int64_t lines) { return absl::StrCat("dropped ", lines, "\n"); }

// Lines of a size that does not divide that of a pipe.
std::string Line(int number) {
  return absl::StrCat("line ", number, " ", std::string(300, 'x'), "\n");
}

// Both ends of a pipe or of a pair of sockets.
struct Channel {
  explicit Channel(bool is_socket) {
    const int made = is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends);
    EXPECT_EQ(made, 0);
  }
  ~Channel() {
    close(ends[0]);
    close(ends[1]);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  int out() const { return ends[0]; }
  int in() const { return ends[1]; }

  // What is there, and what comes until the line that ends with `end`.
  std::string ReadUntil(const std::string& end) const {
    std::string text;
    char block[4096];
    while (!EndsWithText(text, end)) {
      pollfd readable = {.fd = out(), .events = POLLIN, .revents = 0};
      if (poll(&readable, 1, 120'000) != 1) break;
      const ssize_t got = read(out(), block, sizeof(block));
      if (got <= 0) break;
      text.append(block, static_cast<size_t>(got));
    }
    return text;
  }

  static bool EndsWithText(const std::string& text, const std::string& end) {
    return text.size() >= end.size() &&
           text.compare(text.size() - end.size(), end.size(), end) == 0;
  }

  int ends[2] = {-1, -1};
};

class LogWriterTest : public testing::TestWithParam<bool> {
 protected:
  const Channel channel_{GetParam()};
};

TEST_P(LogWriterTest, WritesALineAtOnce) {
  LogWriter writer(channel_.in(), kMaxBytes, DroppedLine);
  writer.Write("a line\n");
  EXPECT_EQ(channel_.ReadUntil("\n"), "a line\n");
  EXPECT_EQ(writer.dropped(), 0);
}

TEST_P(LogWriterTest, DropsLinesThatNobodyReadsAndSaysHowMany) {
  LogWriter writer(channel_.in(), kMaxBytes, DroppedLine);
  writer.Start();
  int lines = 0;
  while (writer.dropped() < 10) writer.Write(Line(lines++));
  const int64_t dropped = writer.dropped();
  const std::string text = channel_.ReadUntil(DroppedLine(dropped));
  EXPECT_THAT(text, EndsWith(absl::StrCat("\n", DroppedLine(dropped))));
  const std::vector<std::string> read = absl::StrSplit(text, '\n');
  ASSERT_EQ(static_cast<int64_t>(read.size()), lines - dropped + 2) << "with the last line's end";
  for (int i = 0; i < lines - dropped; ++i) {
    ASSERT_THAT(read[static_cast<size_t>(i)], StartsWith(absl::StrCat("line ", i, " ")));
    ASSERT_EQ(read[static_cast<size_t>(i)].size() + 1, Line(i).size());
  }
  writer.Write("a later line\n");
  EXPECT_EQ(channel_.ReadUntil("later line\n"), "a later line\n");
}

TEST_P(LogWriterTest, LosesNothingOfWhatASlowReaderReads) {
  constexpr int kThreads = 4;
  constexpr int kLines = 100;  // all of them take more than a pipe, and less than may wait
  LogWriter writer(channel_.in(), /*max_bytes=*/10 << 20, DroppedLine);
  writer.Start();
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&writer] {
        for (int i = 0; i < kLines; ++i) writer.Write(Line(i));
      });
    }
  }
  writer.Write("end\n");
  const std::string text = channel_.ReadUntil("end\n");
  const std::vector<std::string> read = absl::StrSplit(text, '\n');
  EXPECT_EQ(read.size(), kThreads * kLines + 2);
  EXPECT_EQ(writer.dropped(), 0);
}

TEST_P(LogWriterTest, FlushesUntilItsDeadlineAtMost) {
  LogWriter writer(channel_.in(), kMaxBytes, DroppedLine);
  EXPECT_TRUE(writer.Flush(Clock::now()));
  while (writer.dropped() == 0) writer.Write(Line(0));
  EXPECT_FALSE(writer.Flush(Clock::now()));
  std::jthread reader([this] { channel_.ReadUntil(DroppedLine(1)); });
  EXPECT_TRUE(writer.Flush(Clock::now() + kPatience));
}

TEST_P(LogWriterTest, ALineThatIsLongerThanAPipeArrivesWhole) {
  LogWriter writer(channel_.in(), kMaxBytes, DroppedLine);
  writer.Start();
  const std::string line = std::string(3'000'000, 'x') + "\n";
  writer.Write(line);
  EXPECT_EQ(channel_.ReadUntil("\n"), line);
}

TEST_P(LogWriterTest, LeavesTheFlagsOfWhatItIsGiven) {
  const int flags = fcntl(channel_.in(), F_GETFL);
  LogWriter writer(channel_.in(), kMaxBytes, DroppedLine);
  writer.Write("a line\n");
  EXPECT_EQ(fcntl(channel_.in(), F_GETFL), flags);
}

INSTANTIATE_TEST_SUITE_P(Channels, LogWriterTest, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "socket" : "pipe");
});

TEST(LogWriterFile, AppendsToAFile) {
  const TempFolder folder;
  const std::string path = folder.Write("log", "before\n");
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  {
    LogWriter writer(fd, kMaxBytes, DroppedLine);
    writer.Write("after\n");
  }
  close(fd);
  EXPECT_EQ(ReadFile(path), "before\nafter\n");
}

TEST(LogWriterFile, CountsWhatItsFileDoesNotTake) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  LogWriter writer(full, kMaxBytes, DroppedLine);
  writer.Write("a line\n");
  writer.Write("another\n");
  EXPECT_EQ(writer.dropped(), 2);
  close(full);
}

}  // namespace
}  // namespace stowage
