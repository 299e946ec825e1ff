// The screen of `stowage top` as text. Pure.
#ifndef STOWAGE_CLIENT_CLI_TOP_TOP_TEXT_H_
#define STOWAGE_CLIENT_CLI_TOP_TOP_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/top/screen.h"
#include "stowage/v1/status.pb.h"

namespace stowage {

// The state of `stowage top` after a fetch.
struct TopView {
  std::string address;         // of the server
  v1::ServerStatus status;     // of the last successful fetch
  double unix_seconds = 0;     // when that was, on this machine's clock
  std::string time;            // the same, local time
  std::string problem;         // why the last fetch failed; empty: it succeeded
  double problem_seconds = 0;  // since the last successful one
  int restarts = 0;            // of the server, since this program started
};

using NamedCounts = google::protobuf::RepeatedPtrField<v1::NamedCount>;

// 0 for a window of 0 s.
template <typename Number>
double PerSecond(Number count, const v1::StatusWindow& window) {
  return window.seconds() > 0 ? static_cast<double>(count) / window.seconds() : 0;
}

// Uses the columns that fit `width`, at least 80. Names from the server are truncated and have no
// control characters.
std::vector<ScreenLine> DrawTop(const TopView& view, int width);

// Truncates lines and drops some to fit `size`: first the empty lines, then the last ones, whose
// number the last line shows.
std::vector<ScreenLine> Fit(const std::vector<ScreenLine>& lines, ScreenSize size);

// The lines for a file or a pipe, without styles.
std::string PlainText(const std::vector<ScreenLine>& lines);

// Three digits and a unit, at most seven characters: "1.24ms", "12.4s", "124s"; "0s".
std::string ShortSeconds(double seconds);
// "3 d 4 h", "12 min 5 s", "5 s".
std::string FormatUptime(double seconds);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_TOP_TOP_TEXT_H_
