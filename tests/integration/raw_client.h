// Clients that do what no library lets one do: bytes on a socket, HTTP/2 frame by frame.
#ifndef STOWAGE_TESTS_INTEGRATION_RAW_CLIENT_H_
#define STOWAGE_TESTS_INTEGRATION_RAW_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/strings/string_view.h"

namespace stowage {

// A TCP connection, closed with the object. One thread at a time.
class RawSocket {
 public:
  // `address` is host:port, in numbers; `from` is the address that it connects from, or empty for
  // the system's choice. Throws std::runtime_error when nobody listens.
  explicit RawSocket(const std::string& address, const std::string& from = "");
  ~RawSocket();
  RawSocket(RawSocket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  RawSocket& operator=(RawSocket&&) = delete;

  // Sends as much as the system takes at once, and returns how much; 0 as well where the connection
  // is closed, which Receive() finds.
  size_t SendSome(absl::string_view bytes);
  // False once the other side has closed the connection.
  bool Send(absl::string_view bytes);
  // What has arrived, after waiting for it for so long; empty: nothing, or closed().
  std::string Receive(std::chrono::milliseconds wait);
  // Whether Receive() met the end.
  bool closed() const { return closed_; }
  // Whether the other side closes it by then; what arrives is thrown away.
  bool ClosedWithin(std::chrono::milliseconds patience);

 private:
  int fd_;
  bool closed_ = false;
};

// A port that nobody had a moment ago.
std::string FreePort();
// Until somebody does at `address`, or two minutes are over.
void WaitUntilListening(const std::string& address);

// Types of frames, and a flag.
struct Http2 {
  static constexpr uint8_t kData = 0;
  static constexpr uint8_t kHeaders = 1;
  static constexpr uint8_t kReset = 3;
  static constexpr uint8_t kSettings = 4;
  static constexpr uint8_t kPing = 6;
  static constexpr uint8_t kWindowUpdate = 8;
  static constexpr uint8_t kContinuation = 9;
  static constexpr uint8_t kEndHeaders = 4;
};

// What every HTTP/2 client sends first, with a window for each stream of so many bytes.
std::string Http2Preface(uint32_t window_bytes = 65535);
std::string Http2Frame(uint8_t type, uint8_t flags, uint32_t stream, absl::string_view payload);
// A message as gRPC frames it, of `announced` bytes though `bytes` may be fewer.
std::string GrpcMessage(absl::string_view bytes, size_t announced);

// A gRPC client that minds the windows it is given, and else nothing.
class RawGrpc {
 public:
  // With windows of so many bytes for what the server sends. `from`: as of RawSocket.
  explicit RawGrpc(const std::string& address, uint32_t window_bytes = 65535,
                   const std::string& from = "");

  // Calls a method of Scheduler ("Solve"), or a whole path, on a stream with an odd number of its
  // own.
  void Begin(uint32_t stream, absl::string_view method);
  // Sends as much of it as the server takes, waiting no longer than `patience` for more room.
  // Returns how much.
  size_t Send(uint32_t stream, absl::string_view bytes, std::chrono::milliseconds patience);
  void End(uint32_t stream);
  // What the server has sent on the stream once it has ended it, a letter for each frame: H for
  // headers, D for data. Waits no longer than `patience`.
  std::string FramesUntilEnd(uint32_t stream, std::chrono::milliseconds patience);
  // Sends a ping and waits for its answer; false: there is none within `patience`.
  bool Ping(std::chrono::milliseconds patience);
  bool closed() const { return !open_; }

 private:
  void Receive(std::chrono::milliseconds wait);
  void Understand(uint8_t type, uint8_t flags, uint32_t stream, absl::string_view payload);

  RawSocket socket_;
  bool open_ = true;
  int pings_answered_ = 0;
  std::string received_;
  int64_t first_window_ = 65535;            // of a new stream
  int64_t window_ = 65535;                  // of the connection
  std::map<uint32_t, int64_t> windows_;     // of streams
  std::map<uint32_t, std::string> frames_;  // that arrived on streams, as FramesUntilEnd() has them
  std::set<uint32_t> ended_;                // streams, by the server
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_INTEGRATION_RAW_CLIENT_H_
