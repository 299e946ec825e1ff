#include "server/net/tls_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

using Ssl = std::unique_ptr<SSL, decltype(&SSL_free)>;

int IntSize(size_t bytes) { return static_cast<int>(std::min<size_t>(bytes, INT_MAX)); }

// The text of the first error of this thread's queue, which it empties.
std::string LibraryError() {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return text.data();
}

class TlsStream final : public Stream {
 public:
  TlsStream(int fd, Ssl ssl, HandshakeFailure failed)
      : fd_(fd), ssl_(std::move(ssl)), failed_(std::move(failed)) {}
  ~TlsStream() override { close(fd_); }

  int fd() const override { return fd_; }
  short Awaits(short events) const override { return awaits_ != 0 ? awaits_ : events; }
  Progress Read(char* to, size_t bytes) override {
    ERR_clear_error();
    return ProgressOf(SSL_read(ssl_.get(), to, IntSize(bytes)));
  }
  Progress Write(absl::string_view from) override {
    ERR_clear_error();
    return ProgressOf(SSL_write(ssl_.get(), from.data(), IntSize(from.size())));
  }
  // Where the socket's buffer has no room for the message that ends TLS, the client sees the end of
  // the connection alone; the response says its length itself.
  void EndWriting() override {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
    ERR_clear_error();
    shutdown(fd_, SHUT_WR);
  }
  void TimeOut() override { EndHandshake("Handshake timed out"); }

 private:
  Progress ProgressOf(int result) {
    const int system_error = errno;
    awaits_ = 0;
    if (result > 0) return {.bytes = static_cast<size_t>(result)};
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        awaits_ = POLLIN;
        return {};
      case SSL_ERROR_WANT_WRITE:
        awaits_ = POLLOUT;
        return {};
      case SSL_ERROR_SYSCALL:
        EndHandshake(absl::StrCat("Handshake read failed: ", std::strerror(system_error)));
        break;
      default:
        EndHandshake(LibraryError());
    }
    ERR_clear_error();
    return {.has_ended = true};
  }

  // Reports the failure where the connection ends before its handshake does.
  void EndHandshake(const std::string& message) {
    if (!SSL_is_init_finished(ssl_.get())) failed_(message);
  }

  const int fd_;
  const Ssl ssl_;
  const HandshakeFailure failed_;
  short awaits_ = 0;  // set by the last Read() or Write() if it could not go on; else 0
};

// What both sides share; null, with the socket closed, where the library has no memory for it.
Ssl NewSsl(int fd, ssl_ctx_st* context) {
  Ssl ssl(SSL_new(context), SSL_free);
  if (ssl == nullptr || SSL_set_fd(ssl.get(), fd) != 1) {
    ERR_clear_error();
    close(fd);
    return {nullptr, SSL_free};
  }
  // What is written next may lie elsewhere in memory, and a part of it may be all that fits.
  SSL_set_mode(ssl.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return ssl;
}

}  // namespace

std::unique_ptr<Stream> MakeTlsStream(int fd, ssl_ctx_st* context, HandshakeFailure failed) {
  Ssl ssl = NewSsl(fd, context);
  if (ssl == nullptr) return nullptr;
  SSL_set_accept_state(ssl.get());
  return std::make_unique<TlsStream>(fd, std::move(ssl), std::move(failed));
}

std::unique_ptr<Stream> MakeTlsClientStream(int fd, ssl_ctx_st* context, const std::string& host,
                                            HandshakeFailure failed) {
  Ssl ssl = NewSsl(fd, context);
  if (ssl == nullptr) return nullptr;
  SSL_set_connect_state(ssl.get());
  SSL_set_verify(ssl.get(), SSL_VERIFY_PEER, nullptr);
  // An address is compared with the addresses of the certificate, a name with its names.
  X509_VERIFY_PARAM* const wanted = SSL_get0_param(ssl.get());
  const bool is_address = X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) == 1;
  if (!is_address) {
    (void)SSL_set1_host(ssl.get(), host.c_str());
    (void)SSL_set_tlsext_host_name(ssl.get(), host.c_str());
  }
  ERR_clear_error();
  return std::make_unique<TlsStream>(fd, std::move(ssl), std::move(failed));
}

}  // namespace stowage
