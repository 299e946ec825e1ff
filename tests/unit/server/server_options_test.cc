#include "server/server_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

absl::StatusOr<ParsedOptions> Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "stowage-server");
  std::vector<char*> argv;
  argv.reserve(arguments.size());
  for (std::string& argument : arguments) argv.push_back(argument.data());
  return ParseServerOptions(static_cast<int>(argv.size()), argv.data(), "1");
}

TEST(ServerOptions, ComeFromFileAndCommandLineWhichOverridesIt) {
  const TempFolder folder;
  const std::string file =
      folder.Write("server.toml", "threads = 3\ngrace = \"5s\"\nmax-solve-time = \"7s\"\n");
  const auto parsed = Parse({"--config", file, "--grace", "6s"});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->options.engine.threads, 3);
  EXPECT_EQ(parsed->options.engine.max_solve_seconds, 7);
  EXPECT_EQ(parsed->options.grace_seconds, 6);
  EXPECT_THAT(parsed->texts,
              AllOf(Contains(OptionText{"threads", "3"}), Contains(OptionText{"grace", "6s"}),
                    Contains(OptionText{"log-level", "info"})));
}

TEST(ServerOptions, ErrorsNameTheFileThatSetsTheOption) {
  const TempFolder folder;
  for (const char* line :
       {"grace = soon", "tls-cert = a.pem", "log-level = loud", "max-message = 1", "listen = x",
        "http-host = metrics.example:50052", "http-host = \"\"", "trace-collector = localhost",
        "trace-ratio = 1.5", "trace-ratio = -0.1"}) {
    const std::string file = folder.Write("server.toml", line);
    const std::string key(line, std::string(line).find(' '));
    EXPECT_THAT(Parse({"--config", file}), Fails(absl::StatusCode::kInvalidArgument,
                                                 AllOf(StartsWith(file), HasSubstr("--" + key))))
        << line;
  }
}

TEST(ServerOptions, ErrorsOfTheCommandLineDoNotNameTheFile) {
  const TempFolder folder;
  const std::string file = folder.Write("server.toml", "grace = soon\ntoken-file = x\n");
  EXPECT_THAT(Parse({"--config", file, "--grace", "late"}),
              Fails(absl::StatusCode::kInvalidArgument, StartsWith("--grace: 'late'")));
}

}  // namespace
}  // namespace stowage
