// What the fuzzers once found, and their seeds, in every build: tests/fuzz/regressions/TARGET/*.
#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>
#include <string>

#include "tests/fuzz/targets.h"
#include "tests/support/files.h"

namespace stowage {

void PrintTo(const FuzzTarget& target, std::ostream* out) { *out << target.name; }

namespace {

class Fuzz : public testing::TestWithParam<FuzzTarget> {};

// A broken promise ends the process.
TEST_P(Fuzz, SeedsAndWhatWasFoundAreFine) {
  const FuzzTarget& target = GetParam();
  for (const std::string& seed : target.seeds()) target.run(seed);
  int found = 0;
  const std::string folder = std::string(STOWAGE_FUZZ_REGRESSIONS) + "/" + target.name;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    target.run(ReadFile(entry.path().string()));
    ++found;
  }
  EXPECT_GT(found, 0) << folder;
}

// Bytes cut off and changed: a few of what the fuzzers try.
TEST_P(Fuzz, DamagedSeedsAreFine) {
  for (const std::string& seed : GetParam().seeds()) {
    for (size_t i = 0; i < seed.size(); i += 1 + seed.size() / 100) {
      GetParam().run(absl::string_view(seed).substr(0, i));
      std::string damaged = seed;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
      GetParam().run(damaged);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Fuzz, testing::ValuesIn(FuzzTargets()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace stowage
