// What `stowage top` draws of a server's figures. Pure.
#ifndef STOWAGE_CLIENT_CLI_TOP_TOP_TEXT_H_
#define STOWAGE_CLIENT_CLI_TOP_TOP_TEXT_H_

#include <optional>
#include <string>
#include <vector>

#include "client/cli/top/screen.h"
#include "client/cli/top/top_figures.h"

namespace stowage {

// All that there is to say at one moment.
struct TopView {
  std::string address;         // of the server
  std::string time;            // of the last look, for people
  TopFigures figures;          // of the last look that there was an answer to
  std::string problem;         // why there is no answer now; empty: there is
  double problem_seconds = 0;  // since the last answer
  int restarts = 0;            // of the server, that were seen
};

// As many columns as `width` has room for, at least 80; names of the server's are cut and cleaned
// of control characters.
std::vector<ScreenLine> DrawTop(const TopView& view, int width);

// The same, so that it fits: no line wider, and as many lines as there are; first those go that are
// empty, then the last ones, of which the last line says how many.
std::vector<ScreenLine> Fit(const std::vector<ScreenLine>& lines, ScreenSize size);

// For a file or a pipe: every line with its end, without styles.
std::string PlainText(const std::vector<ScreenLine>& lines);

// Three figures and a unit, at most seven characters: "1.24ms", "12.4s", "124s"; "0s".
std::string ShortSeconds(double seconds);
// "3 d 4 h", "12 min 5 s", "5 s".
std::string FormatUptime(double seconds);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_TOP_TOP_TEXT_H_
