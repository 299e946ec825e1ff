// The screen of `stowage top` as text. Pure.
#ifndef STOWAGE_CLIENT_CLI_TOP_TOP_TEXT_H_
#define STOWAGE_CLIENT_CLI_TOP_TOP_TEXT_H_

#include <optional>
#include <string>
#include <vector>

#include "client/cli/top/screen.h"
#include "client/cli/top/top_figures.h"

namespace stowage {

// The state of `stowage top` after a scrape.
struct TopView {
  std::string address;         // of the server
  std::string time;            // of the last successful scrape, local time
  TopFigures figures;          // of the last successful scrape
  std::string problem;         // why the last scrape failed; empty: it succeeded
  double problem_seconds = 0;  // since the last successful scrape
  int restarts = 0;            // of the server, since this program started
};

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
