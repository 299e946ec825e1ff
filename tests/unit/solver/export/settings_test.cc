#include "solver/export/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stowage {
namespace {

using ::testing::ElementsAre;

TEST(Settings, ArePlans) {
  EXPECT_THAT(PiecesOf(Setting{}, 5), ElementsAre(Piece{1, 5, false}));
  EXPECT_THAT(PiecesOf({Method::kUniform, 2}, 5),
              ElementsAre(Piece{1, 2, true}, Piece{3, 4, true}, Piece{5, 5, true}));
  EXPECT_THAT(PiecesOf({Method::kBlock, 2}, 5),
              ElementsAre(Piece{1, 1, true}, Piece{2, 2, true}, Piece{3, 5, false}));
}

TEST(Settings, AreReadFromTheirPlans) {
  for (int count = 1; count <= 12; ++count) {
    for (const Setting& setting : AllSettings(count)) {
      EXPECT_EQ(SettingOf(PiecesOf(setting, count)), setting) << count << SettingText(setting);
    }
  }
}

TEST(Settings, ThatDoNotExistAreNone) {
  using Pieces = std::vector<Piece>;
  for (const Pieces& pieces :
       {Pieces{{1, 1, false}, {2, 2, true}}, Pieces{{1, 2, true}, {3, 4, false}},
        Pieces{{1, 2, true}, {3, 5, true}}, Pieces{{1, 1, true}, {2, 3, true}},
        Pieces{{1, 1, true}, {2, 2, false}, {3, 3, true}}}) {
    EXPECT_EQ(SettingOf(pieces), std::nullopt);
  }
}

}  // namespace
}  // namespace stowage
