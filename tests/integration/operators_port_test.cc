// The port for operators with TLS and a token, read by curl, Prometheus and `stowage top`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/metrics.h"
#include "tests/integration/prometheus.h"
#include "tests/integration/raw_client.h"
#include "tests/support/certificates.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage::operators_port_test {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";
constexpr const char* kOtherToken = "fedcba9876543210fedcba9876543210";

class OperatorsPort : public testing::Test {
 protected:
  std::string Url(const std::string& path) const {
    return absl::StrCat("https://", server_.http_address(), path);
  }
  // The response with its header; what curl says of it on standard error.
  ProgramResult Curl(const std::string& url, const std::vector<std::string>& flags = {}) const {
    return CurlTrusting(authority_, url, flags);
  }
  static ProgramResult CurlTrusting(const Pair& authority, const std::string& url,
                                    const std::vector<std::string>& flags = {}) {
    std::vector<std::string> argv = {"/usr/bin/curl", "-sSi", "--cacert", authority.certificate};
    argv.insert(argv.end(), flags.begin(), flags.end());
    argv.push_back(url);
    return RunProgram(argv);
  }
  ProgramResult CurlMetrics(const std::string& token) const {
    return Curl(Url("/metrics"), {"-H", absl::StrCat("Authorization: Bearer ", token)});
  }
  // Until it is at least `count`.
  void WaitForFailedHandshakes(const std::string& reason, int count) const {
    const std::string series =
        absl::StrCat("stowage_handshakes_failed_total{reason=\"", reason, "\"}");
    const auto end = std::chrono::steady_clock::now() + kPatience;
    double last = 0;
    while ((last = ValueIn(CurlMetrics(kToken).out, series)) < count) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << last;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  ProgramResult Top(const std::vector<std::string>& flags) const {
    std::vector<std::string> argv = {
        Program("stowage"), "top",      "--http", server_.http_address(), "--interval", "100ms",
        "--once",           "--format", "json"};
    argv.insert(argv.end(), flags.begin(), flags.end());
    return RunProgram(argv);
  }

  Office office_;
  const Pair authority_ = office_.Authority("authority");
  const Pair certificate_ = office_.Server("server", authority_);
  const std::string tokens_ =
      office_.folder().Write("tokens", absl::StrCat("prometheus ", kToken, "\n"));
  ServerProcess server_{[this] {
    std::vector<std::string> flags = TlsFlags(certificate_);
    flags.insert(flags.end(), {"--http-tls", "--http-token-file", tokens_});
    return flags;
  }()};
};

TEST_F(OperatorsPort, ShowsMetricsToThoseWithATokenAndItsStateToAll) {
  EXPECT_THAT(CurlMetrics(kToken).out,
              AllOf(HasSubstr("HTTP/1.1 200"), HasSubstr("\nstowage_ready 1\n")));
  for (const char* path : {"/livez", "/readyz"}) {
    EXPECT_THAT(Curl(Url(path)).out, AllOf(HasSubstr("HTTP/1.1 200"), EndsWith("\r\n\r\nok\n")));
  }
  const auto refused =
      AllOf(HasSubstr("HTTP/1.1 401"), HasSubstr("\r\nWWW-Authenticate: Bearer\r\n"),
            Not(HasSubstr("stowage_ready")));
  EXPECT_THAT(Curl(Url("/metrics")).out,
              AllOf(refused, HasSubstr("\r\n\r\nauthorization: is missing")));
  EXPECT_THAT(CurlMetrics(kOtherToken).out,
              AllOf(refused, HasSubstr("\r\n\r\nauthorization: this server does not know")));
  EXPECT_THAT(Curl(Url("/metrics"), {"-u", absl::StrCat("prometheus:", kToken)}).out, refused);
  EXPECT_THAT(Curl(Url("/status")).out, AllOf(refused, Not(HasSubstr("version"))));
  EXPECT_NE(server_.WaitForLogLine({"level=warning event=http_refused", "peer=ipv4:127.0.0.1:",
                                    "authorization: is missing", "count=1"}),
            "");
  EXPECT_EQ(ValueIn(CurlMetrics(kToken).out, "stowage_http_refused_total"), 4);
  EXPECT_THAT(server_.Log(), AllOf(Not(HasSubstr(kToken)), Not(HasSubstr(kOtherToken))));
}

TEST_F(OperatorsPort, ThePageIsForAllAndSaysThatItNeedsAToken) {
  EXPECT_THAT(Curl(Url("/")).out,
              AllOf(HasSubstr("HTTP/1.1 200"), HasSubstr("\r\nContent-Type: text/html"),
                    HasSubstr("\r\nContent-Security-Policy: frame-ancestors 'none'\r\n"),
                    HasSubstr("\r\nX-Content-Type-Options: nosniff\r\n"),
                    HasSubstr(R"({"service":{"needs_token":true}})"), Not(HasSubstr(kToken))));
  EXPECT_THAT(Curl(Url("/other")).out, HasSubstr("HTTP/1.1 404"));
}

// It would hold up the port for half a second.
TEST_F(OperatorsPort, ResponsesAreNotCompressedWithBrotli) {
  const auto encoding = [this](const char* accepted) {
    const std::string out =
        Curl(Url("/"), {"--output", "-", "-H", absl::StrCat("Accept-Encoding: ", accepted)}).out;
    return out.substr(0, out.find("\r\n\r\n"));
  };
  EXPECT_THAT(encoding("gzip, deflate, br"), HasSubstr("\r\nContent-Encoding: gzip"));
  EXPECT_THAT(encoding("br"), Not(HasSubstr("Content-Encoding")));
}

TEST_F(OperatorsPort, FailedHandshakesAreCounted) {
  const ProgramResult plain = Curl(absl::StrCat("http://", server_.http_address(), "/livez"));
  EXPECT_NE(plain.exit_code, 0);
  WaitForFailedHandshakes("not_tls", 1);
  EXPECT_NE(
      server_.WaitForLogLine({"event=handshake_failed", "reason=not_tls", "peer=ipv4:127.0.0.1:"}),
      "");
  const Pair stranger = office_.Authority("stranger");
  EXPECT_NE(CurlTrusting(stranger, Url("/livez")).exit_code, 0);
  WaitForFailedHandshakes("rejected", 1);
  RunProgram({"/usr/bin/openssl", "s_client", "-connect", server_.http_address(), "-tls1_1",
              "-cipher", "ALL:@SECLEVEL=0"});
  WaitForFailedHandshakes("incompatible", 1);
}

// In the handshake, and after it.
TEST_F(OperatorsPort, SlowClientsHoldNobodyUp) {
  BackgroundProgram idle(
      {"/usr/bin/openssl", "s_client", "-connect", server_.http_address(), "-quiet", "-ign_eof"});
  std::vector<RawSocket> sockets;
  sockets.reserve(100);
  for (int i = 0; i < 100; ++i) sockets.emplace_back(server_.http_address());
  const std::string greeting("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03", 10);
  for (size_t byte = 0; byte < greeting.size(); ++byte) {
    for (size_t i = 0; i < sockets.size(); i += 2) sockets[i].Send(greeting.substr(byte, 1));
    EXPECT_THAT(CurlMetrics(kToken).out, HasSubstr("HTTP/1.1 200"));
  }
  for (RawSocket& socket : sockets) EXPECT_TRUE(socket.ClosedWithin(kPatience));
  WaitForFailedHandshakes("timeout", 100);
  EXPECT_TRUE(idle.WaitForExit().has_value());
}

TEST_F(OperatorsPort, ServesReplacedFilesWithoutARestart) {
  const Pair second = office_.Authority("second");
  const Pair fresh = office_.Server("fresh", second);
  Replace(certificate_.key, fresh.key);
  Replace(certificate_.certificate, fresh.certificate);
  EXPECT_NE(server_.WaitForLogLine({"event=credentials_replaced", "which=certificate"}), "");
  EXPECT_EQ(CurlTrusting(second, Url("/livez")).exit_code, 0);
  EXPECT_NE(CurlTrusting(authority_, Url("/livez")).exit_code, 0);
  WriteFile(tokens_, absl::StrCat("prometheus ", kOtherToken, "\n"));
  EXPECT_NE(server_.WaitForLogLine({"event=credentials_replaced", "which=http_tokens"}), "");
  const auto metrics = [&](const char* token) {
    return CurlTrusting(second, Url("/metrics"),
                        {"-H", absl::StrCat("Authorization: Bearer ", token)})
        .out;
  };
  EXPECT_THAT(metrics(kOtherToken), HasSubstr("\nstowage_ready 1\n"));
  EXPECT_THAT(metrics(kToken), HasSubstr("HTTP/1.1 401"));
}

TEST_F(OperatorsPort, ARealPrometheusScrapesIt) {
  const Prometheus prometheus(
      server_.http_address(),
      {.authority = authority_.certificate, .token_file = office_.folder().Write("token", kToken)});
  prometheus.WaitFor("stowage_ready == 1");
}

TEST_F(OperatorsPort, TopReadsItAndSaysWhatIsMissing) {
  const std::string token = office_.folder().Write("token", kToken);
  const ProgramResult read = Top({"--tls-ca", authority_.certificate, "--token-file", token});
  EXPECT_EQ(read.exit_code, 0) << read;
  EXPECT_THAT(read.out, HasSubstr("\"ready\":true"));
  EXPECT_THAT(Top({"--tls-ca", authority_.certificate}).err,
              HasSubstr("authorization: is missing"));
  EXPECT_THAT(Top({"--tls-ca", office_.Authority("stranger").certificate}).err,
              HasSubstr("of no authority in --tls-ca"));
  EXPECT_THAT(Top({"--token-file", token}).err, HasSubstr("--tls"));
  EXPECT_THAT(Top({"--tls-ca", "/no/such.pem"}).err, HasSubstr("/no/such.pem: No such file"));
}

// A browser sends the name by which it was led there.
class OpenHttpPort : public testing::Test {
 protected:
  // The response with its header.
  std::string Get(const std::string& path, const std::string& host) const {
    return RunProgram({"/usr/bin/curl", "-sSi", "--http1.0", "-H", absl::StrCat("Host: ", host),
                       absl::StrCat("http://", server_.http_address(), path)})
        .out;
  }

  ServerProcess server_{{"--http-host", "metrics.example,status.example"}};
};

TEST_F(OpenHttpPort, ShowsNothingToAPageWhoseNameWasReboundToIt) {
  for (const char* path : {"/metrics", "/status"}) {
    EXPECT_THAT(Get(path, "rebound.example:50052"),
                AllOf(HasSubstr(" 403 "), HasSubstr("known as \"rebound.example\""),
                      HasSubstr("--http-host rebound.example"), Not(HasSubstr("stowage_ready"))))
        << path;
  }
  EXPECT_EQ(MetricOf(server_, "stowage_http_refused_total"), 2);
  EXPECT_NE(server_.WaitForLogLine({"event=http_refused", "rebound.example"}), "");
}

TEST_F(OpenHttpPort, IsReadUnderItsNamesAndAddressesAndByProbesUnderAny) {
  char own[256] = {};
  ASSERT_EQ(gethostname(own, sizeof(own) - 1), 0);
  for (const std::string& host :
       {std::string("metrics.example"), std::string("status.example:80"),
        std::string("localhost:1"), std::string("[::1]:50052"), std::string(own), std::string()}) {
    EXPECT_THAT(Get("/metrics", host), HasSubstr("\nstowage_ready 1\n")) << host;
  }
  for (const char* path : {"/livez", "/readyz", "/"}) {
    EXPECT_THAT(Get(path, "pod.example"), HasSubstr(" 200 ")) << path;
  }
}

TEST_F(OperatorsPort, WithATokenAnyHostWillDo) {
  EXPECT_THAT(Curl(Url("/metrics"), {"-H", absl::StrCat("Authorization: Bearer ", kToken), "-H",
                                     "Host: rebound.example"})
                  .out,
              HasSubstr("\nstowage_ready 1\n"));
}

}  // namespace
}  // namespace stowage::operators_port_test
