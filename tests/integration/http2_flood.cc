#include "tests/integration/http2_flood.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/integration/raw_client.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kBlockFrames = 500;

// Of one byte each for the lengths; the receiver remembers it, so that it takes one byte next time.
std::string Remembered(absl::string_view name, absl::string_view value) {
  return absl::StrCat("\x40", std::string(1, static_cast<char>(name.size())), name,
                      std::string(1, static_cast<char>(value.size())), value);
}

// POST and http are in HPACK's own table.
std::string FirstHeaders() {
  return absl::StrCat("\x83\x86", Remembered(":path", "/stowage.v1.Scheduler/Solve"),
                      Remembered(":authority", "test"),
                      Remembered("content-type", "application/grpc"), Remembered("te", "trailers"));
}
constexpr absl::string_view kNextHeaders = "\x83\x86\xc1\xc0\xbf\xbe";

// What a flood sends: Opening() once, then NextBlock() again and again.
class Frames {
 public:
  explicit Frames(Flood flood) : flood_(flood) {}

  std::string Opening() {
    std::string frames = Http2Preface();
    const bool is_open_header = flood_ == Flood::kContinuations || flood_ == Flood::kLongHeader;
    frames +=
        Http2Frame(Http2::kHeaders, is_open_header ? 0 : Http2::kEndHeaders, 1, FirstHeaders());
    // A value of two gigabytes, of which only the length is sent: 127 + 0x7fffff00, say.
    constexpr absl::string_view kLong("\0\1x\x7f\x80\x80\x80\x80\x07", 9);
    if (flood_ == Flood::kLongHeader) frames += Http2Frame(Http2::kContinuation, 0, 1, kLong);
    return frames;
  }

  std::string NextBlock() {
    std::string block;
    for (int i = 0; i < kBlockFrames && block.size() < (16 << 10); ++i) block += Next();
    return block;
  }

 private:
  std::string Next() {
    switch (flood_) {
      case Flood::kResets:
        stream_ += 2;
        return absl::StrCat(
            Http2Frame(Http2::kHeaders, Http2::kEndHeaders, stream_, kNextHeaders),
            Http2Frame(Http2::kReset, 0, stream_, absl::string_view("\0\0\0\x08", 4)));
      case Flood::kContinuations:
        return Http2Frame(Http2::kContinuation, 0, 1, Small());
      case Flood::kLongHeader:
        return Http2Frame(Http2::kContinuation, 0, 1, std::string(16 << 10, 'x'));
      case Flood::kPings:
        return Http2Frame(Http2::kPing, 0, 0, "12345678");
      case Flood::kSettings:
        return Http2Frame(Http2::kSettings, 0, 0, absl::string_view("\0\4\0\1\0\0", 6));
      case Flood::kEmptyData:
        return Http2Frame(Http2::kData, 0, 1, "");
    }
    return "";
  }

  // Many headers that are not remembered.
  static std::string Small() {
    const std::string header = absl::StrCat(std::string(1, '\0'), "\1x\x64", std::string(100, 'y'));
    std::string all;
    while (all.size() + header.size() <= (16 << 10)) all += header;
    return all;
  }

  const Flood flood_;
  uint32_t stream_ = 1;
};

}  // namespace

std::ostream& operator<<(std::ostream& out, Flood flood) {
  switch (flood) {
    case Flood::kResets:
      return out << "Resets";
    case Flood::kContinuations:
      return out << "Continuations";
    case Flood::kLongHeader:
      return out << "LongHeader";
    case Flood::kPings:
      return out << "Pings";
    case Flood::kSettings:
      return out << "Settings";
    case Flood::kEmptyData:
      return out << "EmptyData";
  }
  return out;
}

bool SendFlood(Flood flood, const std::string& address, const std::string& from, size_t max_bytes,
               milliseconds patience) {
  const Clock::time_point end = Clock::now() + patience;
  RawSocket socket(address, from);
  Frames frames(flood);
  std::string block = frames.Opening();
  size_t done = 0;  // of the block
  for (size_t sent = 0; sent < max_bytes && Clock::now() < end && !socket.closed();) {
    const size_t part = socket.SendSome(absl::string_view(block).substr(done));
    sent += part;
    done += part;
    if (done == block.size()) {
      block = frames.NextBlock();
      done = 0;
    }
    socket.Receive(milliseconds(part == 0 ? 1 : 0));
  }
  return socket.closed();
}

RawSocket HoldCalls(const std::string& address, const std::string& from, int calls,
                    size_t metadata_bytes) {
  // Its length takes two bytes beside the 127 that the first one holds.
  const size_t rest = metadata_bytes - 127;
  const std::string length = {0x7f, static_cast<char>(0x80 | (rest & 0x7f)),
                              static_cast<char>(rest >> 7)};
  const std::string headers = absl::StrCat(FirstHeaders(), absl::string_view("\0\1x", 3), length,
                                           std::string(metadata_bytes, 'y'));
  RawSocket socket(address, from);
  bool is_open = socket.Send(Http2Preface());
  for (int call = 0; call < calls && is_open; ++call) {
    const auto stream = static_cast<uint32_t>(2 * call + 1);
    is_open = socket.Send(Http2Frame(Http2::kHeaders, Http2::kEndHeaders, stream, headers));
  }
  return socket;
}

}  // namespace stowage
