#include "tests/gpu/figures/sheet.h"

#include <gtest/gtest.h>

namespace stowage {
namespace {

TEST(Sheet, IsMarkdownForPeopleAndCsvForPrograms) {
  Sheet sheet({"network", "peak", "change", "note"});
  sheet.Add({Words("gpt2"), Size(1536), Change(0.1234), Words("a|b")});
  sheet.Add({Words("resnet50, small"), Maybe<int64_t>(Size, std::nullopt), Change(-1)});
  EXPECT_EQ(sheet.ToMarkdown(),
            "| network | peak | change | note |\n"
            "|---|---|---|---|\n"
            "| gpt2 | 1.50 KiB | +12.3 % | a\\|b |\n"
            "| resnet50, small |  | -100.0 % |  |\n");
  EXPECT_EQ(sheet.ToCsv(),
            "network,peak,change,note\n"
            "gpt2,1536,0.1234,a|b\n"
            "\"resnet50, small\",,-1,\n");
}

}  // namespace
}  // namespace stowage
