#include "server/option_checks.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::HasSubstr;

TEST(OptionChecks, FillInWhatIsGivenAsText) {
  ServerOptions options;
  TextOptions texts;
  texts.solve_memory = "1GiB";
  texts.grace = "120s";
  options.http = "none";
  options.cache_dir = "none";
  ASSERT_THAT(CompleteOptions(texts, &options), IsOk());
  EXPECT_EQ(options.engine.solve_bytes, int64_t{1} << 30);
  EXPECT_EQ(options.engine.all_solves_bytes, int64_t{2} << 30) << "it follows that of one";
  EXPECT_EQ(options.grace_seconds, 120);
  EXPECT_EQ(options.http, "");
  EXPECT_EQ(options.cache_dir, "");
}

TEST(OptionChecks, AllSolvesHaveRoomForTheLargestOne) {
  ServerOptions options;
  TextOptions texts;
  texts.all_solves_memory = "1GiB";
  EXPECT_THAT(CompleteOptions(texts, &options),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("at least --solve-memory")));
}

TEST(OptionChecks, AnErrorSaysWhichOptionItIsAbout) {
  const auto about = [](const TextOptions& texts, ServerOptions options) {
    const auto option = CompleteOptions(texts, &options).GetPayload(kOptionPayload);
    return option.has_value() ? std::string(*option) : "none";
  };
  TextOptions late;
  late.grace = "late";
  EXPECT_EQ(about(late, {}), "--grace");
  ServerOptions plain;
  plain.security.http_tls = true;
  EXPECT_EQ(about({}, plain), "--http-tls");
  EXPECT_EQ(about({}, {}), "none");
}

}  // namespace
}  // namespace stowage
