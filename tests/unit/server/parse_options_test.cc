#include "server/parse_options.h"

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

TEST(ServerOptions, ATraceCollectorMayHaveTls) {
  const auto plain = Parse({"--trace-collector", "127.0.0.1:4317"});
  ASSERT_THAT(plain, IsOk());
  EXPECT_EQ(plain->options.trace_collector.address, "127.0.0.1:4317");
  EXPECT_FALSE(plain->options.trace_collector.has_tls);
  const auto tls = Parse({"--trace-collector", "https://traces.example:4317"});
  ASSERT_THAT(tls, IsOk());
  EXPECT_EQ(tls->options.trace_collector.address, "traces.example:4317");
  EXPECT_TRUE(tls->options.trace_collector.has_tls);

  const TempFolder folder;
  const auto fails = [&](const std::string& collector, const std::string& file, const char* why) {
    EXPECT_THAT(Parse({"--trace-collector", collector, "--trace-collector-ca", file}),
                Fails(absl::StatusCode::kInvalidArgument,
                      AllOf(StartsWith("--trace-collector-ca: "), HasSubstr(why))))
        << why;
  };
  const std::string no_pem = folder.Write("authority.pem", "none\n");
  fails("127.0.0.1:4317", no_pem, "needs a --trace-collector with https://");
  fails("https://127.0.0.1:4317", no_pem, no_pem.c_str());
  EXPECT_THAT(Parse({"--trace-collector", "http://127.0.0.1:4317"}),
              Fails(absl::StatusCode::kInvalidArgument, StartsWith("--trace-collector: ")));
  EXPECT_THAT(Parse({"--trace-collector-ca", no_pem}),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("https://")));
}

TEST(ServerOptions, OnlyTwoPortsCanBeShared) {
  EXPECT_FALSE(Parse({})->options.reuse_port);
  const auto shared = Parse({"--reuse-port", "--listen", "127.0.0.1:0"});
  ASSERT_THAT(shared, IsOk());
  EXPECT_TRUE(shared->options.reuse_port);
  EXPECT_THAT(Parse({"--reuse-port", "--listen", "unix:/run/stowage"}),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("needs a --listen")));
  EXPECT_THAT(Parse({"--reuse-port", "--listen", "[::]:50051", "--http", "127.0.0.1:50051"}),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("needs a --http")));
  EXPECT_THAT(Parse({"--reuse-port", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}), IsOk());
}

TEST(ServerOptions, ErrorsOfTheCommandLineDoNotNameTheFile) {
  const TempFolder folder;
  const std::string file = folder.Write("server.toml", "grace = soon\ntoken-file = x\n");
  EXPECT_THAT(Parse({"--config", file, "--grace", "late"}),
              Fails(absl::StatusCode::kInvalidArgument, StartsWith("--grace: 'late'")));
}

TEST(ServerOptions, AWarmUpHasASourceBesideTheSharedCache) {
  const std::string shared = "redis://one:1";
  const auto fails = [](const char* why) {
    return Fails(absl::StatusCode::kInvalidArgument,
                 AllOf(StartsWith("--warm-up"), HasSubstr(why)));
  };
  EXPECT_THAT(Parse({"--warm-up", "disk", "--cache-dir", "x"}), fails("needs --shared-cache"));
  EXPECT_THAT(Parse({"--warm-up", "disk", "--cache-dir", "none", "--shared-cache", shared}),
              fails("needs a --cache-dir"));
  EXPECT_THAT(Parse({"--warm-up", shared, "--shared-cache", shared}), fails("itself"));
  EXPECT_THAT(Parse({"--warm-up", "tape", "--shared-cache", shared}), fails("redis://"));
  EXPECT_THAT(Parse({"--warm-up-time", "0s"}), fails("must be above 0"));

  const auto parsed = Parse({"--warm-up", "redis://two:2", "--shared-cache", shared});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_FALSE(parsed->options.warm_up.from_disk);
  ASSERT_EQ(parsed->options.warm_up.from.seeds.size(), 1);
  EXPECT_EQ(ToText(parsed->options.warm_up.from.seeds[0]), "two:2");
  EXPECT_EQ(parsed->options.warm_up.max_seconds, 60);
}

}  // namespace
}  // namespace stowage
