#include "solver/base/quote.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

TEST(ValidUtf8, KeepsCharactersOfEveryLength) {
  const std::string text =
      "a\n \xC2\x80 \xC3\xA9 \xE0\xA0\x80 \xE2\x82\xAC \xED\x9F\xBF \xEF\xBF\xBF "
      "\xF0\x90\x80\x80 \xF4\x8F\xBF\xBF";
  EXPECT_EQ(ValidUtf8(text), text);
  EXPECT_EQ(ValidUtf8(""), "");
}

TEST(ValidUtf8, EscapesEachByteOfNoCharacter) {
  EXPECT_EQ(ValidUtf8("a\xFF\xFE"), R"(a\xff\xfe)");
  EXPECT_EQ(ValidUtf8("\x80 \xBF"), R"(\x80 \xbf)");                  // continue nothing
  EXPECT_EQ(ValidUtf8("\xC0\xAF \xC1\xBF"), R"(\xc0\xaf \xc1\xbf)");  // longer than needed
  EXPECT_EQ(ValidUtf8("\xE0\x9F\xBF"), R"(\xe0\x9f\xbf)");
  EXPECT_EQ(ValidUtf8("\xF0\x8F\xBF\xBF"), R"(\xf0\x8f\xbf\xbf)");
  EXPECT_EQ(ValidUtf8("\xED\xA0\x80"), R"(\xed\xa0\x80)");          // a surrogate
  EXPECT_EQ(ValidUtf8("\xF4\x90\x80\x80"), R"(\xf4\x90\x80\x80)");  // above U+10FFFF
  EXPECT_EQ(ValidUtf8("\xC3"), R"(\xc3)");                          // cut off
  EXPECT_EQ(ValidUtf8("\xE2\x82"), R"(\xe2\x82)");
  EXPECT_EQ(ValidUtf8("\xE2\x28\xA1"), R"(\xe2(\xa1)");
  EXPECT_EQ(ValidUtf8("\xF0\x9F\x98z"), R"(\xf0\x9f\x98z)");
}

TEST(Visible, EscapesWhatChangesHowOthersAreShown) {
  EXPECT_EQ(Visible("a\u202Eb\u2066c\u2069"), R"(a\u{202e}b\u{2066}c\u{2069})");
  EXPECT_EQ(Visible("\u061C\u200E\u200F\u2028\u202A"),
            R"(\u{061c}\u{200e}\u{200f}\u{2028}\u{202a})");
  EXPECT_EQ(Visible("\xC2\x80\xC2\x9B\xC2\x9F"), R"(\u{0080}\u{009b}\u{009f})");
  const std::string seen =
      "a\n \u00A0 \u00E9 \u061B \u0627 \u200D \u2010 \u2027 \u202F \u2065 \u206A \uFEFE "
      "\U0001F600";
  EXPECT_EQ(Visible(seen), seen);
  EXPECT_EQ(Visible("\xE2\x80"), R"(\xe2\x80)");  // cut off
}

TEST(Printable, IsOneLineOfValidUtf8) {
  EXPECT_EQ(Printable("a\n\x1B[31m\x7F\xFF\xC3\xA9"), "a  [31m \\xff\xC3\xA9");
}

TEST(Quoted, IsShortValidUtf8) {
  EXPECT_EQ(Quoted("a\xFF"), R"('a\xff')");
  EXPECT_EQ(Quoted("a\u202E"), R"('a\u{202e}')");
  const std::string many(59, 'a');
  EXPECT_EQ(Quoted(absl::StrCat(many, "\xC3\xA9")), absl::StrCat("'", many, "...'"));
}

}  // namespace
}  // namespace stowage
