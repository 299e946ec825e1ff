#include "server/security/file_watch.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using std::chrono::milliseconds;

// Calls of one watch, of which the first ones fail.
struct Calls {
  std::function<bool(ReadCause)> FailingUntil(int number) {
    return [this, number](ReadCause cause) {
      unchanged += cause == ReadCause::kUnchanged ? 1 : 0;
      return ++count >= number;
    };
  }
  void WaitFor(int number) const {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (count < number && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    std::this_thread::sleep_for(milliseconds(50));  // for one too many
    EXPECT_EQ(count, number);
  }
  std::atomic<int> count{0};
  std::atomic<int> unchanged{0};
};

TEST(FileWatch, SeesWhatChangedSinceTheFileWasReadAndTriesUntilItWorks) {
  const TempFolder folder;
  const std::string file = folder.Write("tokens", "old");
  const std::vector<FileVersion> versions = VersionsOf({file});
  WriteFile(file, "newer");
  Calls calls;
  const FileWatch watch({file}, versions, calls.FailingUntil(3), milliseconds(1));
  calls.WaitFor(3);
  EXPECT_EQ(calls.unchanged, 2);
}

TEST(FileWatch, ReadsAgainWhatChangedWhileItWasRead) {
  const TempFolder folder;
  const std::string file = folder.Write("tokens", "old");
  const std::vector<FileVersion> versions = VersionsOf({file});
  WriteFile(file, "newer");
  Calls calls;
  const auto read = [&](ReadCause cause) {
    if (calls.count == 0) WriteFile(file, "the newest");
    return calls.FailingUntil(1)(cause);
  };
  const FileWatch watch({file}, versions, read, milliseconds(1));
  calls.WaitFor(2);
  EXPECT_EQ(calls.unchanged, 0);
}

TEST(FileWatch, ReadsWhenToldToWhateverTheVersionsSay) {
  const TempFolder folder;
  const std::string file = folder.Write("tokens", "text");
  Calls calls;
  FileWatch watch({file}, VersionsOf({file}), calls.FailingUntil(1), std::chrono::hours(1));
  for (int number = 1; number <= 3; ++number) {
    watch.ReadNow();
    EXPECT_EQ(calls.count, number);
  }
  EXPECT_EQ(calls.unchanged, 3);
}

TEST(FileWatch, SeesRightsThatChangeAndFilesThatComeAndGo) {
  const TempFolder folder;
  const std::string file = folder.Write("key", "secret");
  Calls calls;
  const FileWatch watch({file, folder.Path("certificate")},
                        VersionsOf({file, folder.Path("certificate")}), calls.FailingUntil(1),
                        milliseconds(1));
  calls.WaitFor(0);
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  calls.WaitFor(1);
  folder.Write("certificate", "");
  calls.WaitFor(2);
}

}  // namespace
}  // namespace stowage
