#include "server/config_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

bool AppliesGrace(absl::string_view option) { return option == "grace"; }

TEST(ApplyChanges, AppliesWhatItCanAndNamesTheRest) {
  std::vector<OptionText> in_force = {{"threads", "2"}, {"grace", "30s"}, {"http", "none"}};
  const std::vector<OptionText> wanted = {{"threads", "4"}, {"grace", "60s"}, {"http", "none"}};
  const ConfigChanges changes = ApplyChanges(wanted, AppliesGrace, &in_force);
  EXPECT_THAT(changes.applied, ElementsAre("grace: 30s -> 60s"));
  EXPECT_THAT(changes.after_restart, ElementsAre("threads: 2 -> 4"));
}

TEST(ApplyChanges, NamesWhatTakesARestartUntilThen) {
  std::vector<OptionText> in_force = {{"threads", "2"}, {"grace", "30s"}};
  const std::vector<OptionText> wanted = {{"threads", "4"}, {"grace", "60s"}};
  ApplyChanges(wanted, AppliesGrace, &in_force);
  const ConfigChanges again = ApplyChanges(wanted, AppliesGrace, &in_force);
  EXPECT_THAT(again.applied, IsEmpty());
  EXPECT_THAT(again.after_restart, ElementsAre("threads: 2 -> 4"));
}

TEST(ApplyChanges, FindsNothingInAnEqualConfiguration) {
  std::vector<OptionText> in_force = {{"threads", "2"}, {"grace", "30s"}};
  const std::vector<OptionText> wanted = in_force;
  const ConfigChanges changes = ApplyChanges(
      wanted,
      [](absl::string_view option) {
        ADD_FAILURE() << option;
        return true;
      },
      &in_force);
  EXPECT_THAT(changes.applied, IsEmpty());
  EXPECT_THAT(changes.after_restart, IsEmpty());
}

}  // namespace
}  // namespace stowage
