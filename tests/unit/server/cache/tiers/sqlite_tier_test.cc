// What the disk cache must survive, beyond what every tier does (tests/conformance).
#include "server/cache/tiers/sqlite_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/chains.h"
#include "tests/support/files.h"
#include "tests/support/numbered_keys.h"
#include "tests/support/status_matchers.h"

namespace stowage::sqlite_tier_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kMaxBytes = 4 << 20;
constexpr uint64_t kAnswers = 200;

CachedAnswerPtr AnswerTo(uint64_t number) {
  CachedAnswer cached;
  cached.keys = NumberedKeys(number);
  cached.answer.outcome = Outcome::kFeasible;
  cached.answer.solver = "rotor";
  cached.answer.schedule = Ops("S1 S2 S3 S4 S5 B5 B4 B3 B2 B1");
  return std::make_shared<const CachedAnswer>(std::move(cached));
}

class DiskTierTest : public testing::Test {
 protected:
  using Tier = std::unique_ptr<SqliteTier>;

  Tier Open() {
    auto tier = SqliteTier::Open(folder_.Path("cache"), {kMaxBytes});
    EXPECT_THAT(tier, IsOk());
    return tier.ok() ? *std::move(tier) : nullptr;
  }
  void Fill() {
    const Tier tier = Open();
    for (uint64_t number = 0; number < kAnswers; ++number) {
      ASSERT_THAT(tier->Put(AnswerTo(number)), IsOk());
    }
  }
  // How many answers it gives back, all of them right.
  static uint64_t CountRight(SqliteTier& tier) {
    uint64_t right = 0;
    for (uint64_t number = 0; number < kAnswers; ++number) {
      const auto cached = tier.Get(NumberedKey(number, 1));
      if (!cached.ok() || *cached == nullptr) continue;
      EXPECT_EQ((*cached)->keys.exact, NumberedKeys(number).exact);
      EXPECT_EQ((*cached)->answer.schedule, AnswerTo(0)->answer.schedule);
      ++right;
    }
    return right;
  }
  std::string File() const { return folder_.Path("cache/answers.db"); }

  TempFolder folder_;
};

TEST_F(DiskTierTest, ReturnsAfterARestartWhatWasStoredBefore) {
  Fill();
  const Tier tier = Open();
  EXPECT_EQ(tier->stats().entries, kAnswers);
  EXPECT_GT(tier->stats().bytes, 0);
  EXPECT_EQ(CountRight(*tier), kAnswers);
}

TEST_F(DiskTierTest, BelongsToOneProcess) {
  const Tier tier = Open();
  EXPECT_THAT(SqliteTier::Open(folder_.Path("cache"), {kMaxBytes}),
              Fails(absl::StatusCode::kUnavailable, HasSubstr("another process uses it")));
}

TEST_F(DiskTierTest, NamesADirectoryThatItCannotUse) {
  const std::string file = folder_.Write("file", "");
  EXPECT_THAT(SqliteTier::Open(file + "/cache", {kMaxBytes}),
              Fails(absl::StatusCode::kUnavailable, HasSubstr("--cache-dir")));
}

TEST_F(DiskTierTest, CreatesADirectoryForItsUserAlone) {
  const Tier tier = Open();
  EXPECT_EQ(fs::status(folder_.Path("cache")).permissions(), fs::perms::owner_all);
}

TEST_F(DiskTierTest, FollowsALinkToItsDirectory) {
  Fill();
  fs::rename(folder_.Path("cache"), folder_.Path("elsewhere"));
  fs::create_directory_symlink(folder_.Path("elsewhere"), folder_.Path("cache"));
  EXPECT_EQ(CountRight(*Open()), kAnswers);
}

// Who may write to the directory could have another file overwritten.
TEST_F(DiskTierTest, DoesNotFollowALinkInPlaceOfItsFiles) {
  const std::string target = folder_.Write("target", "");
  for (const char* name : {"answers.db", "answers.db-wal"}) {
    const fs::path link = fs::path(folder_.Path("cache")) / name;
    fs::create_directory(folder_.Path("cache"));
    fs::create_symlink(target, link);
    EXPECT_THAT(
        SqliteTier::Open(folder_.Path("cache"), {kMaxBytes}),
        Fails(absl::StatusCode::kUnavailable, HasSubstr(folder_.Path("cache") + "/answers.db")))
        << name;
    EXPECT_EQ(ReadFile(target), "") << name;
    fs::remove_all(folder_.Path("cache"));
  }
}

TEST_F(DiskTierTest, SaysThatItsFileIsALink) {
  fs::create_directory(folder_.Path("cache"));
  fs::create_symlink(folder_.Path("target"), File());
  EXPECT_THAT(SqliteTier::Open(folder_.Path("cache"), {kMaxBytes}),
              Fails(absl::StatusCode::kUnavailable, HasSubstr("symbolic link")));
  EXPECT_FALSE(fs::exists(folder_.Path("target")));
}

// Whose mode and name would change, wherever its other name is.
TEST_F(DiskTierTest, LeavesAHardLinkAlone) {
  const std::string target = folder_.Write("target", "of somebody else");
  fs::permissions(target, fs::perms::owner_all | fs::perms::others_read);
  fs::create_directory(folder_.Path("cache"));
  fs::create_hard_link(target, File());
  EXPECT_THAT(SqliteTier::Open(folder_.Path("cache"), {kMaxBytes}),
              Fails(absl::StatusCode::kUnavailable, HasSubstr("hard link: remove it")));
  EXPECT_EQ(ReadFile(target), "of somebody else");
  EXPECT_EQ(fs::status(target).permissions(), fs::perms::owner_all | fs::perms::others_read);
  EXPECT_TRUE(fs::exists(File()));
}

TEST_F(DiskTierTest, DoesNotWaitForAPipeInPlaceOfItsFile) {
  fs::create_directory(folder_.Path("cache"));
  ASSERT_EQ(mkfifo(File().c_str(), 0600), 0);
  EXPECT_THAT(SqliteTier::Open(folder_.Path("cache"), {kMaxBytes}),
              Fails(absl::StatusCode::kUnavailable, HasSubstr("no regular file")));
}

TEST_F(DiskTierTest, RenamesAFileThatIsNoDatabase) {
  Fill();
  WriteFile(File(), std::string(100'000, 'x'));
  const Tier tier = Open();
  EXPECT_EQ(CountRight(*tier), 0);
  EXPECT_TRUE(fs::exists(File() + ".damaged"));
  EXPECT_THAT(tier->Put(AnswerTo(1)), IsOk());
  EXPECT_EQ(CountRight(*tier), 1);
}

TEST_F(DiskTierTest, CreatesTheTablesInAnEmptyFile) {
  Fill();
  fs::resize_file(File(), 0);
  const Tier tier = Open();
  EXPECT_EQ(CountRight(*tier), 0);
  EXPECT_THAT(tier->Put(AnswerTo(1)), IsOk());
}

// Has answers been used so many seconds after the epoch: the number of each.
void SetUsed(const std::string& file, const std::map<uint64_t, int>& used) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &database), SQLITE_OK);
  for (const auto& [number, seconds] : used) {
    const std::string sql = absl::StrCat("UPDATE answers SET used = ", seconds, " WHERE key = x'",
                                         ToHex(NumberedKey(number, 1)), "'");
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  }
  EXPECT_EQ(sqlite3_close(database), SQLITE_OK);
}

std::vector<Fingerprint> Visited(SqliteTier& tier, size_t most) {
  std::vector<Fingerprint> keys;
  EXPECT_THAT(tier.Visit([&](const CachedAnswerPtr& cached) {
    if (cached != nullptr) keys.push_back(cached->keys.rounded);
    return keys.size() < most;
  }),
              IsOk());
  return keys;
}

TEST_F(DiskTierTest, ListsWhatWasUsedLastFirst) {
  {
    const Tier tier = Open();
    for (const uint64_t number : {1, 2, 3}) ASSERT_THAT(tier->Put(AnswerTo(number)), IsOk());
  }
  SetUsed(File(), {{1, 200}, {2, 300}, {3, 100}});
  // The second time: listing is no use.
  for (int round = 0; round < 2; ++round) {
    const Tier tier = Open();
    EXPECT_THAT(Visited(*tier, 10),
                ElementsAre(NumberedKey(2, 1), NumberedKey(1, 1), NumberedKey(3, 1)));
    EXPECT_THAT(Visited(*tier, 2), ElementsAre(NumberedKey(2, 1), NumberedKey(1, 1)));
  }
}

TEST_F(DiskTierTest, ListsNothingThatIsDamaged) {
  Fill();
  std::string bytes = ReadFile(File());
  const std::string solver = "rotor";
  const size_t at = bytes.find(solver);
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, solver.size(), "motor");
  WriteFile(File(), bytes);
  const Tier tier = Open();
  EXPECT_EQ(Visited(*tier, 2 * kAnswers).size(), kAnswers - 1);
}

// Wherever the damage is, an answer is right, or missing.
TEST_F(DiskTierTest, NeverServesWhatIsDamaged) {
  Fill();
  const std::string whole = ReadFile(File());
  std::mt19937 random(1);
  uint64_t lost = 0;
  for (int round = 0; round < 60; ++round) {
    std::string damaged = whole;
    if (round % 3 == 0) {
      damaged.resize(random() % whole.size());
    } else {
      for (int i = 0; i < 20; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    WriteFile(File(), damaged);
    auto tier = SqliteTier::Open(folder_.Path("cache"), {kMaxBytes});
    ASSERT_THAT(tier, IsOk()) << round;
    lost += kAnswers - CountRight(**tier);
    // One put may find the damage, and begins anew then; the next works.
    (void)(*tier)->Put(AnswerTo(1));
    EXPECT_THAT((*tier)->Put(AnswerTo(1)), IsOk()) << round;
  }
  EXPECT_GT(lost, 0) << "nothing was damaged";
}

TEST_F(DiskTierTest, DropsWhatAnotherVersionWrote) {
  Fill();
  std::string file = ReadFile(File());
  file[63] = 99;  // SQLite's user_version, the last of its four bytes
  WriteFile(File(), file);
  const Tier tier = Open();
  EXPECT_EQ(tier->stats().entries, 0);
  EXPECT_THAT(tier->Put(AnswerTo(1)), IsOk());
}

TEST_F(DiskTierTest, KeepsTheFileWithinItsBytes) {
  const Tier tier = Open();
  for (uint64_t number = 0; number < 20'000; ++number) {
    ASSERT_THAT(tier->Put(AnswerTo(number)), IsOk());
  }
  EXPECT_GT(tier->stats().evictions, 0);
  EXPECT_LE(fs::file_size(File()), kMaxBytes);
}

}  // namespace
}  // namespace stowage::sqlite_tier_test
