#include "server/security/file_permissions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uid_t kServer = 900;
constexpr uid_t kRoot = 0;

struct stat File(mode_t mode, uid_t owner = kServer) {
  struct stat file {};
  file.st_mode = S_IFREG | mode;
  file.st_uid = owner;
  return file;
}

TEST(CheckWriters, RefusesFilesThatGroupOrOthersMayWrite) {
  for (const mode_t mode : {0400U, 0600U, 0440U, 0644U}) {
    EXPECT_THAT(CheckWriters("key", File(mode)), IsOk()) << mode;
  }
  for (const mode_t mode : {0660U, 0602U, 0666U, 0777U}) {
    EXPECT_THAT(CheckWriters("key", File(mode)),
                Fails(absl::StatusCode::kInvalidArgument, HasSubstr("chmod go-w key")))
        << mode;
  }
  EXPECT_THAT(CheckWriters("/etc/tokens", File(0666)),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("/etc/tokens: has mode 0666")));
}

TEST(WarnOfReaders, NamesModeAndRemedy) {
  const auto warning = WarnOfReaders("/etc/key", File(0644), kServer);
  ASSERT_TRUE(warning.has_value());
  EXPECT_EQ(warning->subject, "/etc/key");
  EXPECT_THAT(warning->problem, HasSubstr("mode 0644"));
  EXPECT_EQ(warning->remedy, "chmod go= /etc/key");
  // With mode 0600 the server could no longer read a file of root's.
  EXPECT_EQ(WarnOfReaders("key", File(0644, kRoot), kServer)->remedy, "chmod o= key");
}

TEST(WarnOfReaders, AcceptsTheGroupOfAnotherUsersFile) {
  EXPECT_TRUE(WarnOfReaders("key", File(0640), kServer).has_value());
  EXPECT_FALSE(WarnOfReaders("key", File(0640, kRoot), kServer).has_value());
  // systemd's credentials, with an access list for the server's user.
  EXPECT_FALSE(WarnOfReaders("key", File(0440, kRoot), kServer).has_value());
  for (const mode_t mode : {0400U, 0600U}) {
    EXPECT_FALSE(WarnOfReaders("key", File(mode), kServer).has_value()) << mode;
  }
}

TEST(WarnOfWriters, NamesDirectoriesThatOthersMayChange) {
  EXPECT_FALSE(WarnOfWriters("cache", File(0700), "the answers").has_value());
  EXPECT_FALSE(WarnOfWriters("cache", File(0755), "the answers").has_value());
  for (const mode_t mode : {0770U, 0777U, 01777U}) {
    const auto warning = WarnOfWriters("cache", File(mode), "the answers");
    ASSERT_TRUE(warning.has_value()) << mode;
    EXPECT_EQ(warning->remedy, "chmod go-w cache");
  }
}

TEST(ReadTrustedFile, ChecksWhoMayWriteTheFileBehindALink) {
  const TempFolder folder;
  const std::string file = folder.Write("tokens", "secret");
  const std::string link = folder.Path("link");
  ASSERT_EQ(symlink(file.c_str(), link.c_str()), 0);
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  EXPECT_EQ(ReadTrustedFile(link).value(), "secret");
  ASSERT_EQ(chmod(file.c_str(), 0606), 0);
  EXPECT_THAT(ReadTrustedFile(link), Fails(absl::StatusCode::kInvalidArgument,
                                           AllOf(HasSubstr(link), HasSubstr("has mode 0606"))));
}

}  // namespace
}  // namespace stowage
