// Who is served, and over what: TLS, certificates of callers, bearer tokens, and their replacement
// while the server runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "grpcpp/grpcpp.h"
#include "tests/integration/metrics.h"
#include "tests/integration/raw_client.h"
#include "tests/integration/rpc.h"
#include "tests/support/certificates.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage::security_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";
constexpr const char* kOtherToken = "fedcba9876543210fedcba9876543210";

Remote Trusting(const ServerProcess& server, const Pair& authority) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = ReadFile(authority.certificate);
  return Remote(server.address(), grpc::SslCredentials(options));
}

ProgramResult Solve(const ServerProcess& server, const std::vector<std::string>& flags) {
  std::vector<std::string> argv = {
      Program("stowage"), "solve", "--chain",  ProfilePath("pipedream-vgg16-128-224"),
      "--memory",         "50%",   "--server", server.address()};
  argv.insert(argv.end(), flags.begin(), flags.end());
  return RunProgram(argv);
}

void WaitUntilServed(const ServerProcess& server, const Pair& authority) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!Trusting(server, authority).Answers() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

TEST(Tls, ServesThoseWhoTrustItsAuthorityAndNobodyElse) {
  Office office;
  const Pair authority = office.Authority("authority");
  const Pair stranger = office.Authority("stranger");
  ServerProcess server(TlsFlags(office.Server("server", authority)));
  EXPECT_TRUE(Trusting(server, authority).Answers());
  EXPECT_FALSE(Trusting(server, stranger).Answers());
  EXPECT_FALSE(Remote(server.address()).Answers());
  EXPECT_GT(MetricOf(server, "stowage_tls_certificate_end_seconds"), 1.7e9);
}

TEST(Tls, TheCommandLineSpeaksIt) {
  Office office;
  const Pair authority = office.Authority("authority");
  const Pair stranger = office.Authority("stranger");
  ServerProcess server(TlsFlags(office.Server("server", authority)));
  const ProgramResult answered = Solve(server, {"--tls-ca", authority.certificate});
  EXPECT_EQ(answered.exit_code, 0) << answered;
  EXPECT_THAT(Solve(server, {"--tls-ca", stranger.certificate}).err,
              AllOf(StartsWith("stowage: the server at "), HasSubstr("over TLS"),
                    HasSubstr("check --tls-ca")));
  EXPECT_EQ(Solve(server, {}).exit_code, 1);
  EXPECT_THAT(Solve(server, {"--tls-ca", "/no/such.pem"}).err,
              HasSubstr("/no/such.pem: No such file or directory"));
  EXPECT_THAT(Solve(server, {"--tls-cert", authority.certificate}).err,
              HasSubstr("--tls-cert, --tls-key: give both"));
}

TEST(Tls, MutualTlsServesCallersWithACertificateAndKnowsTheirNames) {
  Office office;
  const Pair authority = office.Authority("authority");
  const Pair stranger = office.Authority("stranger");
  std::vector<std::string> flags = TlsFlags(office.Server("server", authority));
  flags.insert(flags.end(), {"--tls-client-ca", authority.certificate});
  ServerProcess server(flags);
  EXPECT_FALSE(Trusting(server, authority).Answers());
  const auto with = [&](const Pair& caller) {
    return Solve(server, {"--tls-ca", authority.certificate, "--tls-cert", caller.certificate,
                          "--tls-key", caller.key});
  };
  const ProgramResult answered = with(office.Caller("trainer-7", authority));
  EXPECT_EQ(answered.exit_code, 0) << answered;
  EXPECT_NE(server.WaitForLogLine({"event=call", "client=trainer-7"}), "");
  EXPECT_EQ(with(office.Caller("impostor", stranger)).exit_code, 1);
}

TEST(Tls, AReplacedCertificateIsServedWithoutARestart) {
  Office office;
  const Pair first = office.Authority("first");
  const Pair second = office.Authority("second");
  const Pair old = office.Server("old", first);
  const Pair fresh = office.Server("fresh", second);
  ServerProcess server(TlsFlags(old));
  const Remote connected = Trusting(server, first);
  EXPECT_TRUE(connected.Answers());
  EXPECT_FALSE(Trusting(server, second).Answers());
  Replace(old.key, fresh.key);
  Replace(old.certificate, fresh.certificate);
  WaitUntilServed(server, second);
  EXPECT_TRUE(Trusting(server, second).Answers());
  EXPECT_FALSE(Trusting(server, first).Answers());
  EXPECT_TRUE(connected.Answers());  // who is connected stays so
  EXPECT_NE(server.WaitForLogLine({"event=credentials_replaced", "which=certificate"}), "");
}

// What OpenSSL would refuse at every handshake, though the two belong together.
TEST(Tls, AKeyThatIsTooShortIsRefused) {
  const TempFolder folder;
  const std::string certificate = folder.Path("weak.pem");
  const std::string key = folder.Path("weak.key");
  const ProgramResult made =
      RunProgram({"/usr/bin/openssl", "req", "-x509", "-newkey", "rsa:1024", "-nodes", "-days", "2",
                  "-subj", "/CN=weak", "-out", certificate, "-keyout", key});
  ASSERT_EQ(made.exit_code, 0) << made;
  const ProgramResult refused =
      RunProgram({Program("stowage-server"), "--listen", "127.0.0.1:0", "--http", "none",
                  "--cache-dir", "none", "--tls-cert", certificate, "--tls-key", key});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("weak.pem"), HasSubstr("cannot be served")));
}

TEST(Tls, AReplacementThatCannotBeUsedChangesNothing) {
  Office office;
  const Pair authority = office.Authority("authority");
  const Pair pair = office.Server("server", authority);
  const Pair other = office.Server("other", authority);
  ServerProcess server(TlsFlags(pair));
  Replace(pair.key, other.key);
  EXPECT_NE(server.WaitForLogLine({"event=credentials_unusable", "is not the key of"}), "");
  WaitForMetric(server, R"(stowage_credential_reloads_total{result="failed",which="certificate"})",
                1);
  // gRPC reads the files once a second.
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_TRUE(Trusting(server, authority).Answers());
  Replace(pair.certificate, other.certificate);
  EXPECT_NE(server.WaitForLogLine({"event=credentials_replaced", "which=certificate"}), "");
  EXPECT_TRUE(Trusting(server, authority).Answers());
}

// What each kind of client that does not get through is counted as. The reasons are read from texts
// of gRPC and codes of OpenSSL: another version of them may need changes in handshake_failures.cc.
class Handshakes : public testing::Test {
 protected:
  void ExpectFailures(const std::string& reason, int count) {
    failures_[reason] += count;
    total_ += count;
    WaitForMetric(server_, absl::StrCat("stowage_handshakes_failed_total{reason=\"", reason, "\"}"),
                  failures_[reason]);
    EXPECT_NE(server_.WaitForLogLine({"event=handshake_failed", "reason=" + reason, "message="}),
              "");
    EXPECT_EQ(Total(), total_) << "and as nothing else";
  }
  int Total() const {
    int total = 0;
    for (const char* reason : {"not_tls", "no_certificate", "untrusted_certificate", "rejected",
                               "incompatible", "timeout", "closed", "other"}) {
      total += static_cast<int>(MetricOf(
          server_, absl::StrCat("stowage_handshakes_failed_total{reason=\"", reason, "\"}")));
    }
    return total;
  }
  // The openssl program as a client; it ends by itself.
  void Connect(std::vector<std::string> flags, const Pair* certificate = nullptr) const {
    flags.insert(flags.begin(), {"/usr/bin/openssl", "s_client", "-connect", server_.address()});
    if (certificate != nullptr) {
      flags.insert(flags.end(), {"-cert", certificate->certificate, "-key", certificate->key});
    }
    RunProgram(flags);
  }

  Office office_;
  const Pair authority_ = office_.Authority("authority");
  const Pair stranger_ = office_.Authority("stranger");
  const Pair caller_ = office_.Caller("caller", authority_);
  ServerProcess server_{[this] {
    std::vector<std::string> flags = TlsFlags(office_.Server("server", authority_));
    flags.insert(flags.end(), {"--tls-client-ca", authority_.certificate});
    return flags;
  }()};

 private:
  std::map<std::string, int> failures_;
  int total_ = 0;
};

TEST_F(Handshakes, OfClientsThatDoNotEncryptAreCounted) {
  const auto send = [this](const std::string& bytes) {
    RawSocket socket(server_.address());
    socket.Send(bytes);
    EXPECT_TRUE(socket.ClosedWithin(kPatience));
  };
  send(Http2Preface());
  ExpectFailures("not_tls", 1);
  send("GET / HTTP/1.1\r\n\r\n");
  ExpectFailures("not_tls", 1);
  send(std::string(1000, '\xff'));
  ExpectFailures("not_tls", 1);
}

TEST_F(Handshakes, OfClientsWithoutAProperCertificateAreCounted) {
  const Pair impostor = office_.Caller("impostor", stranger_);
  for (const char* version : {"-tls1_2", "-tls1_3"}) {
    Connect({"-alpn", "h2", version});
    ExpectFailures("no_certificate", 1);
    Connect({"-alpn", "h2", version}, &impostor);
    ExpectFailures("untrusted_certificate", 1);
  }
}

TEST_F(Handshakes, OfClientsThatDoNotTrustTheServerAreCounted) {
  for (const char* version : {"-tls1_2", "-tls1_3"}) {
    Connect({"-alpn", "h2", version, "-CAfile", stranger_.certificate, "-verify_return_error"},
            &caller_);
    ExpectFailures("rejected", 1);
  }
}

TEST_F(Handshakes, OfClientsWithNothingInCommonAreCounted) {
  Connect({"-alpn", "h2", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"}, &caller_);
  ExpectFailures("incompatible", 1);
  Connect({"-alpn", "h2", "-tls1_2", "-cipher", "AES128-SHA"}, &caller_);
  ExpectFailures("incompatible", 1);
  Connect({}, &caller_);
  ExpectFailures("incompatible", 1);
  Connect({"-alpn", "http/1.1"}, &caller_);
  ExpectFailures("incompatible", 1);
}

TEST_F(Handshakes, OfClientsThatLeaveOrSayNothingAreCounted) {
  { const RawSocket leaves(server_.address()); }
  ExpectFailures("closed", 1);
  {
    RawSocket leaves(server_.address());
    leaves.Send(absl::string_view("\x16\x03\x01\x02\x00\x01", 6));  // the beginning of a greeting
  }
  ExpectFailures("closed", 1);
  EXPECT_TRUE(RawSocket(server_.address()).ClosedWithin(kPatience));
  ExpectFailures("timeout", 1);
}

TEST_F(Handshakes, ThatSucceedAreNotCounted) {
  const ProgramResult answered = Solve(server_, {"--tls-ca", authority_.certificate, "--tls-cert",
                                                 caller_.certificate, "--tls-key", caller_.key});
  EXPECT_EQ(answered.exit_code, 0) << answered;
  EXPECT_EQ(Total(), 0);
}

// A call with a token, or without one where it is empty.
grpc::Status SolveWithToken(const Remote& remote, const std::string& authorization) {
  grpc::ClientContext context;
  if (!authorization.empty()) context.AddMetadata("authorization", authorization);
  v1::SolveResponse response;
  return remote.Solve(SmallSolveRequest(), &response, &context);
}

TEST(Tokens, AdmitCallersThatHaveOne) {
  const TempFolder folder;
  const std::string file =
      folder.Write("tokens", absl::StrCat("# callers\n\ntrainer ", kToken, "  # since May\n"));
  ServerProcess server({"--token-file", file});
  const Remote remote(server.address());
  EXPECT_EQ(Text(SolveWithToken(remote, absl::StrCat("Bearer ", kToken))), "OK");
  EXPECT_NE(server.WaitForLogLine({"event=call", "code=OK", "client=trainer"}), "");
  EXPECT_THAT(Text(SolveWithToken(remote, "")),
              HasSubstr("UNAUTHENTICATED: authorization: is missing"));
  EXPECT_THAT(Text(SolveWithToken(remote, absl::StrCat("Basic ", kToken))),
              HasSubstr("Bearer TOKEN"));
  EXPECT_THAT(Text(SolveWithToken(remote, absl::StrCat("Bearer ", kOtherToken))),
              HasSubstr("does not know the token"));
  EXPECT_EQ(MetricOf(server, R"(stowage_rejected_total{reason="unauthenticated"})"), 3);
  EXPECT_THAT(server.Log(), AllOf(Not(HasSubstr(kToken)), Not(HasSubstr(kOtherToken))));
}

// A cached response is sent without reading the request; the token is checked before.
TEST(Tokens, AreRequiredForCachedResponsesToo) {
  const TempFolder folder;
  ServerProcess server({"--token-file", folder.Write("tokens", absl::StrCat("a ", kToken))});
  const Remote remote(server.address());
  v1::SolveRequest request = SmallSolveRequest();
  request.mutable_options()->set_use_cache(true);
  const auto solve = [&](const std::string& authorization) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", authorization);
    v1::SolveResponse response;
    return remote.Solve(request, &response, &context).error_code();
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(solve(absl::StrCat("Bearer ", kToken)), grpc::OK);
  EXPECT_EQ(MetricOf(server, R"(stowage_cache_entries{tier="responses"})"), 1);
  EXPECT_EQ(solve(absl::StrCat("Bearer ", kOtherToken)), grpc::UNAUTHENTICATED);
}

// Whatever is added to the service.
TEST(Tokens, NoMethodAnswersWithoutOneButHealth) {
  const TempFolder folder;
  ServerProcess server({"--token-file", folder.Write("tokens", absl::StrCat("a ", kToken))});
  const Remote remote(server.address());
  const auto* const service = v1::SolveRequest::descriptor()->file()->service(0);
  ASSERT_EQ(service->full_name(), "stowage.v1.Scheduler");
  for (int i = 0; i < service->method_count(); ++i) {
    EXPECT_EQ(remote.SendRaw(service->method(i)->name(), "").error_code(),
              grpc::StatusCode::UNAUTHENTICATED)
        << service->method(i)->name();
  }
  EXPECT_EQ(remote.Health(), HealthState::SERVING);
}

TEST(Tokens, AreReadAgainWhenTheFileChanges) {
  const TempFolder folder;
  const std::string file = folder.Write("tokens", absl::StrCat("trainer ", kToken));
  ServerProcess server({"--token-file", file});
  const Remote remote(server.address());
  WriteFile(file, "trainer short");
  EXPECT_NE(server.WaitForLogLine({"event=credentials_unusable", "openssl rand -hex 32"}), "");
  WaitForMetric(server, R"(stowage_credentials_current{which="tokens"})", 0);
  EXPECT_EQ(Text(SolveWithToken(remote, absl::StrCat("Bearer ", kToken))), "OK");
  WriteFile(file, absl::StrCat("trainer ", kOtherToken));
  EXPECT_NE(server.WaitForLogLine({"event=credentials_replaced", "which=tokens"}), "");
  EXPECT_EQ(Text(SolveWithToken(remote, absl::StrCat("Bearer ", kOtherToken))), "OK");
  EXPECT_FALSE(SolveWithToken(remote, absl::StrCat("Bearer ", kToken)).ok());
  WaitForMetric(server, R"(stowage_credentials_current{which="tokens"})", 1);
}

TEST(Tokens, TheCommandLineSendsItsOwn) {
  const TempFolder folder;
  ServerProcess server({"--token-file", folder.Write("tokens", absl::StrCat("a ", kToken))});
  const ProgramResult answered =
      Solve(server, {"--token-file", folder.Write("mine", absl::StrCat(kToken, "\n"))});
  EXPECT_EQ(answered.exit_code, 0) << answered;
  const ProgramResult refused = Solve(server, {});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("authorization: is missing"), HasSubstr("--token-file")));
  EXPECT_THAT(Solve(server, {"--token-file", folder.Write("two", "two words")}).err,
              HasSubstr("is not a token"));
}

// What a server does not start with, and what it says.
TEST(Security, FilesThatCannotBeUsedStopTheStart) {
  Office office;
  const Pair authority = office.Authority("authority");
  const Pair pair = office.Server("server", authority);
  const Pair other = office.Server("other", authority);
  const std::string& key = pair.key;
  const std::string& certificate = pair.certificate;
  const auto refusal = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {Program("stowage-server"), "--listen", "127.0.0.1:0", "--http",
                                 "none", "--cache-dir", "none"});
    const ProgramResult result = RunProgram(flags);
    EXPECT_EQ(result.exit_code, 1) << result;
    return result.err;
  };
  EXPECT_THAT(refusal({"--tls-cert", certificate}), HasSubstr("--tls-cert, --tls-key: give both"));
  EXPECT_THAT(refusal({"--tls-client-ca", certificate}), HasSubstr("needs --tls-cert"));
  EXPECT_THAT(refusal({"--http-tls"}), HasSubstr("--http-tls: needs --tls-cert"));
  EXPECT_THAT(refusal({"--tls-cert", "/no/such.pem", "--tls-key", key}),
              HasSubstr("/no/such.pem: No such file"));
  EXPECT_THAT(refusal({"--tls-cert", key, "--tls-key", key}), HasSubstr("has no certificate"));
  EXPECT_THAT(refusal({"--tls-cert", certificate, "--tls-key", certificate}),
              HasSubstr("has no private key"));
  EXPECT_THAT(refusal({"--tls-cert", certificate, "--tls-key", other.key}),
              HasSubstr("is not the key of"));
  EXPECT_THAT(refusal({"--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", key}),
              HasSubstr("has no certificate"));
  const TempFolder& folder = office.folder();
  EXPECT_THAT(refusal({"--token-file", folder.Path("none")}), HasSubstr("No such file"));
  EXPECT_THAT(refusal({"--http-token-file", folder.Path("none")}), HasSubstr("No such file"));
  EXPECT_THAT(refusal({"--token-file", folder.Write("empty", "# nobody\n")}),
              HasSubstr("has no token"));
  EXPECT_THAT(refusal({"--token-file", folder.Write("odd", "a b c")}), HasSubstr("odd:1: "));
  EXPECT_THAT(refusal({"--token-file", folder.Write("short", "\nname 123")}),
              HasSubstr("short:2: the token has fewer than 16"));
  EXPECT_THAT(refusal({"--token-file",
                       folder.Write("twice", absl::StrCat("a ", kToken, "\nb ", kToken, "\n"))}),
              HasSubstr("twice:2: the token is in the file twice"));
}

// The lines of its log about what is unsafe.
std::vector<std::string> WarningsOf(ServerProcess& server) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(server.Log(), '\n')) {
    if (absl::StrContains(line, "level=warning event=unsafe")) lines.emplace_back(line);
  }
  return lines;
}

TEST(Warnings, NameAnAddressThatAnybodyReaches) {
  ServerProcess open({}, "0.0.0.0:0");
  EXPECT_THAT(WarningsOf(open),
              ElementsAre(AllOf(HasSubstr("subject=0.0.0.0:0"), HasSubstr("--tls-cert")),
                          AllOf(HasSubstr("subject=0.0.0.0:0"), HasSubstr("--token-file"))));
  EXPECT_TRUE(Remote(open.address()).Answers());
  ServerProcess loopback;
  EXPECT_THAT(WarningsOf(loopback), IsEmpty());
}

TEST(Warnings, NameAnOperatorsPortThatAnybodyReads) {
  ServerProcess open({"--http", "0.0.0.0:0"});
  EXPECT_THAT(WarningsOf(open),
              ElementsAre(AllOf(HasSubstr("subject=0.0.0.0:0"), HasSubstr("--http-token-file"))));
  const TempFolder folder;
  const std::string tokens = folder.Write("tokens", absl::StrCat("a ", kToken));
  ASSERT_EQ(chmod(tokens.c_str(), 0600), 0);
  ServerProcess closed({"--http", "0.0.0.0:0", "--http-token-file", tokens});
  EXPECT_THAT(WarningsOf(closed), IsEmpty());
}

TEST(Warnings, NameARangeOfProxiesThatHoldsClientsToo) {
  ServerProcess server({"--trusted-proxy", "10.0.0.7,10.0.0.0/8"});
  EXPECT_THAT(WarningsOf(server), ElementsAre(AllOf(HasSubstr("--trusted-proxy 10.0.0.0/8"),
                                                    HasSubstr("addresses of the proxies alone"))));
}

TEST(Warnings, LeaveAnAddressWithTlsAndTokensAlone) {
  Office office;
  std::vector<std::string> flags = TlsFlags(office.Server("server", office.Authority("authority")));
  const std::string tokens = office.folder().Write("tokens", absl::StrCat("a ", kToken));
  ASSERT_EQ(chmod(tokens.c_str(), 0600), 0);
  flags.insert(flags.end(), {"--token-file", tokens});
  ServerProcess server(flags, "0.0.0.0:0");
  EXPECT_THAT(WarningsOf(server), IsEmpty());
}

TEST(Warnings, NameSecretsThatOthersMayRead) {
  Office office;
  const Pair pair = office.Server("server", office.Authority("authority"));
  const std::string tokens = office.folder().Write("tokens", absl::StrCat("a ", kToken));
  ASSERT_EQ(chmod(pair.key.c_str(), 0644), 0);
  ASSERT_EQ(chmod(tokens.c_str(), 0604), 0);
  std::vector<std::string> flags = TlsFlags(pair);
  flags.insert(flags.end(), {"--token-file", tokens});
  ServerProcess server(flags);
  EXPECT_THAT(WarningsOf(server), ElementsAre(AllOf(HasSubstr(pair.key), HasSubstr("mode 0644"),
                                                    HasSubstr("chmod go= " + pair.key)),
                                              AllOf(HasSubstr(tokens), HasSubstr("mode 0604"))));
}

TEST(Warnings, NameAFolderOfTokensThatOthersMayWriteTo) {
  const TempFolder folder;
  const std::string secrets = folder.Path("secrets");
  ASSERT_EQ(mkdir(secrets.c_str(), 0700), 0);
  const std::string tokens = folder.Write("secrets/tokens", absl::StrCat("a ", kToken));
  ASSERT_EQ(chmod(tokens.c_str(), 0600), 0);
  const std::string operators = folder.Write("secrets/operators", "b of-operators-0123456789");
  ASSERT_EQ(chmod(operators.c_str(), 0600), 0);
  ASSERT_EQ(chmod(secrets.c_str(), 0777), 0);
  ServerProcess open({"--token-file", tokens, "--operator-token-file", operators});
  EXPECT_THAT(WarningsOf(open), ElementsAre(AllOf(HasSubstr(secrets), HasSubstr("mode 0777"),
                                                  HasSubstr("chmod go-w " + secrets))));
  ASSERT_EQ(chmod(secrets.c_str(), 01777), 0);
  ServerProcess sticky({"--token-file", tokens});
  EXPECT_THAT(WarningsOf(sticky), IsEmpty());
}

TEST(Warnings, NameOperatorsTokensThatJobsOrReadersOfMetricsHave) {
  const TempFolder folder;
  const auto write = [&folder](const char* name, const std::string& text) {
    const std::string file = folder.Write(name, text);
    EXPECT_EQ(chmod(file.c_str(), 0600), 0);
    return file;
  };
  const std::string tokens = write("tokens", absl::StrCat("a ", kToken));
  const std::string operators = write("operators", absl::StrCat("b ", kToken, "\nc ", kToken, "2"));
  const std::string readers = write("readers", absl::StrCat("d ", kToken, "2"));
  ServerProcess shared(
      {"--token-file", tokens, "--operator-token-file", operators, "--http-token-file", readers});
  EXPECT_THAT(WarningsOf(shared),
              ElementsAre(AllOf(HasSubstr(operators), HasSubstr(tokens), HasSubstr("runs a job")),
                          AllOf(HasSubstr(operators), HasSubstr(readers), HasSubstr("metrics"))));
  ServerProcess apart({"--token-file", tokens, "--operator-token-file", readers});
  EXPECT_THAT(WarningsOf(apart), IsEmpty());
}

TEST(Warnings, NameAConfigurationFileThatOthersMayWrite) {
  const TempFolder folder;
  const std::string config = folder.Path("config");
  ASSERT_EQ(mkdir(config.c_str(), 0700), 0);
  const std::string file = folder.Write("config/server.toml", "grace = 5s\n");
  ASSERT_EQ(chmod(file.c_str(), 0644), 0);
  ServerProcess server({"--config", file});
  EXPECT_THAT(WarningsOf(server), IsEmpty());
  ASSERT_EQ(chmod(file.c_str(), 0664), 0);
  ASSERT_EQ(chmod(config.c_str(), 0777), 0);
  server.Signal(SIGHUP);
  EXPECT_NE(server.WaitForLogLine({"event=reloaded"}), "");
  EXPECT_THAT(WarningsOf(server),
              ElementsAre(AllOf(HasSubstr(file), HasSubstr("mode 0664"), HasSubstr("the options"),
                                HasSubstr("chmod go-w " + file)),
                          AllOf(HasSubstr(config), HasSubstr("mode 0777"))));
}

TEST(Warnings, NameACacheDirectoryThatOthersMayWriteTo) {
  const TempFolder folder;
  const std::string cache = folder.Path("cache");
  ASSERT_EQ(mkdir(cache.c_str(), 0700), 0);
  ASSERT_EQ(chmod(cache.c_str(), 0777), 0);
  ServerProcess server({"--cache-dir", cache});
  EXPECT_THAT(WarningsOf(server), ElementsAre(AllOf(HasSubstr(cache), HasSubstr("mode 0777"),
                                                    HasSubstr("chmod go-w " + cache))));
  // One that stays as it is is not repeated.
  server.Signal(SIGHUP);
  EXPECT_NE(server.WaitForLogLine({"event=reloaded"}), "");
  EXPECT_EQ(WarningsOf(server).size(), 1U);
  ASSERT_EQ(chmod(cache.c_str(), 0770), 0);
  server.Signal(SIGHUP);
  EXPECT_NE(server.WaitForLogLine({"event=unsafe", "mode 0770"}), "");
}

TEST(Warnings, ACacheFileThatIsALinkIsNotFollowed) {
  const TempFolder folder;
  const std::string cache = folder.Path("cache");
  ASSERT_EQ(mkdir(cache.c_str(), 0700), 0);
  const std::string target = folder.Write("target", "");
  ASSERT_EQ(symlink(target.c_str(), (cache + "/answers.db").c_str()), 0);
  ServerProcess server({"--cache-dir", cache});
  EXPECT_NE(server.WaitForLogLine({"event=store_failed", "answers.db", "symbolic link"}), "");
  EXPECT_TRUE(Remote(server.address()).Answers());
  EXPECT_EQ(ReadFile(target), "");
}

// Whoever may write them lets himself in.
TEST(Security, CredentialsThatOthersMayWriteStopTheStart) {
  Office office;
  const Pair pair = office.Server("server", office.Authority("authority"));
  const std::string tokens = office.folder().Write("tokens", absl::StrCat("a ", kToken));
  const auto refusal = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {Program("stowage-server"), "--listen", "127.0.0.1:0", "--http",
                                 "none", "--cache-dir", "none"});
    const ProgramResult result = RunProgram(flags);
    EXPECT_EQ(result.exit_code, 1) << result;
    return result.err;
  };
  ASSERT_EQ(chmod(tokens.c_str(), 0666), 0);
  EXPECT_THAT(refusal({"--token-file", tokens}),
              AllOf(HasSubstr(tokens + ": has mode 0666"), HasSubstr("chmod go-w " + tokens)));
  ASSERT_EQ(chmod(pair.key.c_str(), 0660), 0);
  EXPECT_THAT(refusal(TlsFlags(pair)),
              AllOf(HasSubstr(pair.key + ": has mode 0660"), HasSubstr("chmod go-w " + pair.key)));
}

TEST(Security, CredentialsThatOthersMayWriteAreNotReadAgain) {
  const TempFolder folder;
  const std::string tokens = folder.Write("tokens", absl::StrCat("a ", kToken));
  ServerProcess server({"--token-file", tokens});
  ASSERT_EQ(chmod(tokens.c_str(), 0666), 0);
  WriteFile(tokens, absl::StrCat("a ", kOtherToken));
  EXPECT_NE(server.WaitForLogLine({"event=credentials_unusable", "has mode 0666"}), "");
  const Remote remote(server.address());
  EXPECT_FALSE(SolveWithToken(remote, absl::StrCat("Bearer ", kOtherToken)).ok());
  EXPECT_TRUE(SolveWithToken(remote, absl::StrCat("Bearer ", kToken)).ok());
  ASSERT_EQ(chmod(tokens.c_str(), 0600), 0);
  EXPECT_NE(server.WaitForLogLine({"event=credentials_replaced", "which=tokens"}), "");
  EXPECT_TRUE(SolveWithToken(remote, absl::StrCat("Bearer ", kOtherToken)).ok());
}

TEST(Security, SighupReadsTheCertificateAgainAndReportsWhatHasChanged) {
  Office office;
  const Pair pair = office.Server("server", office.Authority("authority"));
  ServerProcess server(TlsFlags(pair));
  server.Signal(SIGHUP);
  EXPECT_NE(server.WaitForLogLine({"event=reloaded"}), "");
  EXPECT_THAT(server.Log(), Not(HasSubstr("credentials_replaced")));
  ASSERT_EQ(chmod(pair.key.c_str(), 0400), 0);  // a change, if one of the file's rights alone
  server.Signal(SIGHUP);
  EXPECT_NE(server.WaitForLogLine({"event=credentials_replaced", "which=certificate"}), "");
}

}  // namespace
}  // namespace stowage::security_test
