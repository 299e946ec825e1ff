// The bytes of one connection of the HTTP port, in the clear here and perhaps encrypted on the
// wire.
#ifndef STOWAGE_SERVER_NET_STREAM_H_
#define STOWAGE_SERVER_NET_STREAM_H_

#include <cstddef>
#include <memory>

#include "absl/strings/string_view.h"

namespace stowage {

// No call blocks. One thread at a time.
class Stream {
 public:
  struct Progress {
    size_t bytes = 0;        // 0: none now; poll for Awaits()
    bool has_ended = false;  // the client has closed the connection, or it failed
  };

  // A buffer of this size takes in all that a Read() decrypts: where a smaller one leaves some
  // behind, poll() does not report it.
  static constexpr size_t kReadBytes = 16 << 10;

  // Closes the connection.
  virtual ~Stream() = default;

  virtual int fd() const = 0;
  // What to poll for, POLLIN or POLLOUT, before a Read() or Write() is tried again. `events` is
  // what it would be for a plain connection; TLS may have to write before it can read, or the
  // reverse.
  virtual short Awaits(short events) const = 0;
  virtual Progress Read(char* to, size_t bytes) = 0;
  // Writes the beginning of it. Requires: after a call without progress the same bytes again.
  virtual Progress Write(absl::string_view from) = 0;
  // Tells the client that nothing more is written. It can still be read.
  virtual void EndWriting() = 0;
  // The client was too slow; the connection is closed next.
  virtual void TimeOut() = 0;
};

// Takes over a connected, non-blocking socket.
std::unique_ptr<Stream> MakePlainStream(int fd);

}  // namespace stowage

#endif  // STOWAGE_SERVER_NET_STREAM_H_
