#include "tests/gpu/figures/overlap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stowage {
namespace {

using testing::DoubleNear;
using testing::Optional;

constexpr double kLittle = 1e-12;

TEST(HiddenShare, IsWhatOfTheCopiesHasAComputationBesideIt) {
  // Of two seconds of copying one; what is computed twice at once hides it once.
  const Timeline timeline = {.computations = {{{0, 1}, 1}, {{0.5, 1.5}, 1}, {{3, 4}, 1}},
                             .copies = {{0.5, 2.5}}};
  EXPECT_THAT(HiddenShare(timeline), Optional(DoubleNear(0.5, kLittle)));
}

TEST(HiddenShare, AddsUpCopiesOfBothWays) {
  const Timeline timeline = {.computations = {{{0, 2}, 2}}, .copies = {{0, 2}, {1, 3}}};
  EXPECT_THAT(HiddenShare(timeline), Optional(DoubleNear(0.75, kLittle)));
}

TEST(HiddenShare, IsNoneWithoutCopies) {
  EXPECT_EQ(HiddenShare({.computations = {{{0, 2}, 2}}, .copies = {}}), std::nullopt);
  EXPECT_EQ(HiddenShare({.computations = {}, .copies = {{1, 1}}}), std::nullopt);
}

TEST(HiddenShare, IsZeroWhereComputationsWait) {
  const Timeline timeline = {.computations = {{{0, 1}, 1}, {{2, 3}, 1}}, .copies = {{1, 2}}};
  EXPECT_THAT(HiddenShare(timeline), Optional(DoubleNear(0, kLittle)));
}

TEST(LossOf, TellsComputationsBesideCopiesFromThoseApart) {
  const Timeline timeline = {.computations = {{{0, 1.1}, 1},  // no copy beside it
                                              {{2, 3.5}, 1},  // one for most of it
                                              {{4, 5.3}, 1},  // one for half of it
                                              {{6, 16}, 1}},  // one for little of it
                             .copies = {{2.2, 3.5}, {4, 4.65}, {6, 7}}};
  const ComputeLoss loss = LossOf(timeline);
  EXPECT_THAT(loss.apart, Optional(DoubleNear(0.1, kLittle)));
  EXPECT_THAT(loss.beside, Optional(DoubleNear(0.4, kLittle)));
}

TEST(LossOf, IsNoneWhereThereAreNoSuchComputations) {
  const ComputeLoss loss = LossOf({.computations = {{{0, 1}, 1}}, .copies = {}});
  EXPECT_EQ(loss.beside, std::nullopt);
  EXPECT_THAT(loss.apart, Optional(DoubleNear(0, kLittle)));
}

}  // namespace
}  // namespace stowage
