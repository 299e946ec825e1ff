// TLS for the HTTP port, and for connections to Redis. Its source is the only file here that uses
// OpenSSL.
#ifndef STOWAGE_SERVER_NET_TLS_STREAM_H_
#define STOWAGE_SERVER_NET_TLS_STREAM_H_

#include <functional>
#include <memory>
#include <string>

#include "server/net/stream.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace stowage {

// Called with the library's message when a handshake fails.
using HandshakeFailure = std::function<void(const std::string& message)>;

// Takes over a connected, non-blocking socket, as the server of a TLS connection with the
// certificate of `context`. The handshake is made by the first calls of Read(). Null, with the
// socket closed, where the library has no memory for it.
std::unique_ptr<Stream> MakeTlsStream(int fd, ssl_ctx_st* context, HandshakeFailure failed);

// The same as the client of a server, whose certificate has to be for `host`, a name or an address.
std::unique_ptr<Stream> MakeTlsClientStream(int fd, ssl_ctx_st* context, const std::string& host,
                                            HandshakeFailure failed);

}  // namespace stowage

#endif  // STOWAGE_SERVER_NET_TLS_STREAM_H_
