#include "solver/base/cores.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "tests/support/files.h"

namespace stowage {
namespace {

class Cores : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_.Path(path)).parent_path());
    folder_.Write(path, text);
  }
  int Of(const std::string& groups, int most = 16) const {
    return CoresWithinQuota(most, folder_.Path(""), groups);
  }

 private:
  const TempFolder folder_;
};

TEST_F(Cores, AreAllWithoutAQuota) {
  EXPECT_EQ(Of("0::/\n"), 16);  // no file
  Write("cpu.max", "max 100000\n");
  EXPECT_EQ(Of("0::/\n"), 16);
  EXPECT_EQ(Of(""), 16);
  EXPECT_EQ(Of("nothing that is known"), 16);
  EXPECT_EQ(Of("0::no folder\n4:cpu:\n0::/../other\n"), 16);
  Write("cpu/cpu.cfs_quota_us", "-1\n");
  Write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Of("4:cpu,cpuacct:/\n"), 16);
}

TEST_F(Cores, AreThoseOfTheQuotaRoundedUp) {
  for (const auto& [quota, cores] : {std::pair("50000", 1),
                                     {"100000", 1},
                                     {"100001", 2},
                                     {"250000", 3},
                                     {"9223372036854775807", 16},
                                     {"1", 1}}) {
    Write("cpu.max", std::string(quota) + " 100000\n");
    EXPECT_EQ(Of("0::/\n"), cores) << quota;
  }
  EXPECT_EQ(Of("0::/\n", 0), 1);
  Write("cpu.max", "0 0\n");
  EXPECT_EQ(Of("0::/\n"), 16);
}

TEST_F(Cores, AreTheLeastOfAllGroupsAround) {
  Write("system.slice/cpu.max", "300000 100000\n");
  Write("system.slice/stowage.service/cpu.max", "400000 100000\n");
  EXPECT_EQ(Of("0::/system.slice/stowage.service\n"), 3);
  EXPECT_EQ(Of("0::/system.slice/stowage.service/inner\n"), 3);
  EXPECT_EQ(Of("0::/other\n"), 16);
  EXPECT_EQ(Of("0::/system.slice/\n"), 3);
}

TEST_F(Cores, AreThoseOfVersionOne) {
  Write("cpu/docker/cpu.cfs_quota_us", "150000\n");
  Write("cpu/docker/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Of("5:memory:/docker\n4:cpu,cpuacct:/docker/1f5e\n"), 2);
  EXPECT_EQ(Of("5:cpuset:/docker\n"), 16);
}

TEST_F(Cores, OfThisProcessAreOneAtLeast) { EXPECT_GE(UsableCores(), 1); }

}  // namespace
}  // namespace stowage
