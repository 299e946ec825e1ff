#include "solver/base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using testing::StrEq;

constexpr size_t kMebibyte = 1 << 20;

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST(ReadWholeFile, ReadsBytesOfAnySize) {
  const TempFolder folder;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{65536}, 3 * kMebibyte + 1}) {
    std::string bytes(size, '\0');
    for (size_t at = 0; at < size; ++at) bytes[at] = static_cast<char>(at % 251);
    EXPECT_EQ(ReadWholeFile(folder.Write("file", bytes)).value(), bytes) << size;
  }
}

TEST(ReadWholeFile, NamesTheFileAndTheSystemsReason) {
  const TempFolder folder;
  const std::string path = folder.Path("none");
  EXPECT_THAT(ReadWholeFile(path),
              Fails(absl::StatusCode::kNotFound, StrEq(path + ": No such file or directory")));
  EXPECT_THAT(ReadWholeFile(folder.Path("")).status().message(), HasSubstr("Is a directory"));
}

TEST(ReadWholeFile, WaitsForTheWriterOfAPipe) {
  const TempFolder folder;
  const std::string pipe = folder.Path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&pipe] { EXPECT_TRUE(WriteFile(pipe, absl::string_view("chain")).ok()); });
  EXPECT_EQ(ReadWholeFile(pipe).value(), "chain");
  writer.join();
}

TEST(ReadSmallFile, AcceptsAMebibyteAndNoByteMore) {
  const TempFolder folder;
  for (const FileKind kind : {FileKind::kAny, FileKind::kRegular}) {
    const std::string largest = folder.Write("largest", std::string(kMebibyte, 'x'));
    EXPECT_EQ(ReadSmallFile(largest, kind).value().size(), kMebibyte);
    const std::string larger = folder.Write("larger", std::string(kMebibyte + 1, 'x'));
    EXPECT_THAT(ReadSmallFile(larger, kind), Fails(absl::StatusCode::kInvalidArgument,
                                                   StrEq(larger + ": is larger than a mebibyte")));
  }
  EXPECT_THAT(ReadSmallFile("/dev/zero", FileKind::kAny).status().message(),
              HasSubstr("is larger than"));
}

// To open or to read them could wait for ever.
TEST(ReadSmallFile, RefusesWhatIsNoRegularFile) {
  const TempFolder folder;
  const std::string pipe = folder.Path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero")}) {
    EXPECT_THAT(ReadSmallFile(path, FileKind::kRegular),
                Fails(absl::StatusCode::kInvalidArgument,
                      AllOf(HasSubstr(path), HasSubstr("no regular file"))));
  }
  EXPECT_THAT(ReadSmallFile(folder.Path(""), FileKind::kRegular).status().message(),
              HasSubstr("Is a directory"));
}

TEST(ReadSmallFile, ReturnsTheErrorOfTheCheck) {
  const TempFolder folder;
  const std::string path = folder.Write("tokens", "secret");
  const auto is_empty = [](const struct stat& file) {
    return file.st_size == 0 ? absl::OkStatus() : absl::DataLossError("is not empty");
  };
  EXPECT_THAT(ReadSmallFile(path, FileKind::kRegular, is_empty),
              Fails(absl::StatusCode::kDataLoss, StrEq("is not empty")));
}

TEST(WriteFile, SaysWhatTheSystemSays) {
  EXPECT_THAT(WriteFile("/nowhere/step.json", absl::string_view("x")),
              Fails(absl::StatusCode::kUnavailable,
                    StrEq("cannot write /nowhere/step.json: No such file or directory")));
  // Fails where it is closed, since it is buffered until then.
  EXPECT_THAT(WriteFile("/dev/full", absl::string_view("x")),
              Fails(absl::StatusCode::kUnavailable,
                    StrEq("cannot write /dev/full: No space left on device")));
}

TEST(ReplaceFile, CreatesAndReplacesAndLeavesNothingElse) {
  const TempFolder folder;
  const std::string path = folder.Path("plan");
  for (const std::string text : {"", "first", "second, longer"}) {
    ASSERT_TRUE(ReplaceFile(path, text).ok());
    EXPECT_EQ(ReadWholeFile(path).value(), text);
  }
  EXPECT_THAT(NamesIn(folder.Path("")), testing::ElementsAre("plan"));
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0644));
}

TEST(ReplaceFile, LeavesWhatIsThereWhereItFails) {
  const TempFolder folder;
  std::filesystem::create_directories(folder.Path("plan/in the way"));
  EXPECT_THAT(ReplaceFile(folder.Path("plan"), "text"),
              Fails(absl::StatusCode::kUnavailable,
                    StartsWith("cannot write " + folder.Path("plan") + ": ")));
  EXPECT_THAT(NamesIn(folder.Path("")), testing::ElementsAre("plan"));
}

TEST(ReplaceFile, ShowsWholeFilesToConcurrentReaders) {
  const TempFolder folder;
  const std::string path = folder.Path("plan");
  const std::string texts[] = {std::string(100'000, 'a'), std::string(200'000, 'b')};
  ASSERT_TRUE(ReplaceFile(path, texts[0]).ok());
  std::vector<std::thread> writers;
  for (const std::string& text : texts) {
    writers.emplace_back([&path, &text] {
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(ReplaceFile(path, text).ok());
    });
  }
  for (int i = 0; i < 200; ++i) {
    EXPECT_THAT(ReadWholeFile(path).value(), testing::AnyOf(texts[0], texts[1]));
  }
  for (std::thread& writer : writers) writer.join();
}

}  // namespace
}  // namespace stowage
