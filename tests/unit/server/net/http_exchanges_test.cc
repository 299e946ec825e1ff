#include "server/net/http_exchanges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "httplib.h"
#include "server/net/listener.h"
#include "server/net/tls_stream.h"
#include "server/security/tls.h"
#include "tests/integration/raw_client.h"
#include "tests/support/certificates.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using testing::HasSubstr;

class NullObserver final : public ConnectionObserver {
 public:
  void ConnectionAccepted(const std::string&) override {}
  void ConnectionRefused(const RefusedConnection&) override {}
  void ConnectionCutOff(const CutConnection& /*connection*/) override {}
  void HandshakeFailed(const FailedHandshake&) override {}
  void ReaderRefused(const RefusedReader&) override {}
};

// A port whose every response has `body`, and that counts the bytes of requests.
class Port {
 public:
  Port(Exchanges::Open open, const std::string& body)
      : exchanges_({.most = 10, .open = std::move(open)}, observer_,
                   [body](const std::string& request, const std::string& /*peer*/) {
                     return absl::StrCat("HTTP/1.1 200 OK\r\nX-Request-Bytes: ", request.size(),
                                         "\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
                   }) {
    auto listener = Listener::Start("127.0.0.1:0", {}, [this](int fd) { exchanges_.Add(fd); });
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  const std::string& address() const { return listener_->address(); }
  int number() const {
    int number = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address().substr(address().rfind(':') + 1), &number));
    return number;
  }

 private:
  NullObserver observer_;
  Exchanges exchanges_;
  std::unique_ptr<Listener> listener_;
};

// A header that does not fit into one read, and a body that no socket takes at once.
void ExpectLargeMessagesArriveWhole(httplib::ClientImpl& client, const std::string& body) {
  client.set_read_timeout(kPatience);
  const httplib::Result result = client.Get("/", {{"x", std::string(12'000, 'x')}});
  ASSERT_TRUE(result) << result.error();
  EXPECT_EQ(result->body.size(), body.size());
  EXPECT_TRUE(result->body == body);
  int bytes = 0;
  EXPECT_TRUE(absl::SimpleAtoi(result->get_header_value("X-Request-Bytes"), &bytes));
  EXPECT_GT(bytes, 12'000);
}

std::string LargeBody() {
  std::string body;
  while (body.size() < (8 << 20)) absl::StrAppend(&body, body.size(), "\n");
  return body;
}

TEST(Exchanges, LargeMessagesArriveWhole) {
  const std::string body = LargeBody();
  const Port port(MakePlainStream, body);
  httplib::ClientImpl client("127.0.0.1", port.number());
  ExpectLargeMessagesArriveWhole(client, body);
}

class TlsExchanges : public testing::Test {
 protected:
  TlsExchanges() {
    std::signal(SIGPIPE, SIG_IGN);  // as the server
    const Pair pair = office_.Server("server", authority_);
    auto tls = Tls::Load({pair.certificate, pair.key, ""});
    EXPECT_TRUE(tls.ok()) << tls.status();
    tls_ = *std::move(tls);
  }

  Exchanges::Open Open() {
    return [this](int fd) {
      return MakeTlsStream(fd, tls_->Context().get(),
                           [this](const std::string& message) { failure_.set_value(message); });
    };
  }

  Office office_;
  const Pair authority_ = office_.Authority("authority");
  std::unique_ptr<Tls> tls_;
  std::promise<std::string> failure_;  // the message of the one handshake that fails
};

TEST_F(TlsExchanges, LargeMessagesArriveWhole) {
  const std::string body = LargeBody();
  const Port port(Open(), body);
  httplib::SSLClient client("127.0.0.1", port.number());
  client.set_ca_cert_path(authority_.certificate);
  ExpectLargeMessagesArriveWhole(client, body);
}

TEST_F(TlsExchanges, AFailedHandshakeIsReportedWithTheLibrarysMessage) {
  const Port port(Open(), "body");
  RawSocket socket(port.address());
  socket.Send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(socket.ClosedWithin(kPatience));
  EXPECT_THAT(failure_.get_future().get(), HasSubstr("error:0A00009C:"));
}

TEST_F(TlsExchanges, AClientThatLeavesInTheHandshakeIsReported) {
  const Port port(Open(), "body");
  { const RawSocket socket(port.address()); }
  EXPECT_THAT(failure_.get_future().get(), HasSubstr("error:0A000126:"));
}

}  // namespace
}  // namespace stowage
