#include "client/cli/top/top_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/text/table.h"
#include "solver/base/quote.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

constexpr int kWideCalls = 113;  // width of the table of calls with all columns
constexpr int kMaxBar = 40;      // columns of the bar of a running solve
constexpr int kBeforeBar = 50;   // columns before it

using Lines = std::vector<ScreenLine>;

void AddTitle(Lines& lines, std::string text) {
  lines.push_back({});
  lines.push_back({std::move(text), LineStyle::kTitle});
}

std::string Whole(double count) { return absl::StrFormat("%.0f", count); }

// "412.5", "12345"
std::string Rate(double per_second) {
  return absl::StrFormat("%.*f", per_second < 9999.95 ? 1 : 0, per_second);
}

std::string Share(std::optional<double> share) {
  return share.has_value() ? FormatPercent(*share) : "-";
}

// A name from the server, truncated and printable.
std::string Name(const std::string& name, size_t columns) {
  return Printable(name).substr(0, columns);
}

std::string LastTitle(const TopFigures& figures) {
  if (!figures.last.has_value()) return "last interval";
  return absl::StrFormat("last %.1f s", figures.last->seconds);
}

// Three columns of seven characters.
std::string QuantileColumns(const std::optional<Quantiles>& quantiles) {
  if (!quantiles.has_value()) return absl::StrFormat("%8s%8s%8s", "-", "-", "-");
  return absl::StrFormat("%8s%8s%8s", ShortSeconds(quantiles->p50), ShortSeconds(quantiles->p90),
                         ShortSeconds(quantiles->p99));
}

// "3 invalid, 12 queue_full"; empty where all counts are 0.
std::string Listed(const Counts& counts) {
  std::vector<std::string> parts;
  for (const auto& [label, count] : counts) {
    if (count > 0) parts.push_back(absl::StrCat(Whole(count), " ", Name(label, 24)));
  }
  return absl::StrJoin(parts, ", ");
}

// Events of one kind in both windows.
struct EventCounts {
  std::string what;
  Counts last;
  Counts since_start;
};

// "errors: last 2.0 s: 2 Canceled; since start: 14 Canceled"
void AddListed(Lines& lines, const TopFigures& figures, const EventCounts& events) {
  if (SumOf(events.since_start) == 0) return;
  const std::string last = Listed(events.last);
  std::string text = events.what + ": ";
  if (!last.empty()) absl::StrAppend(&text, LastTitle(figures), ": ", last, "; ");
  lines.push_back({absl::StrCat(text, "since start: ", Listed(events.since_start))});
}

// Errors of all methods, by code.
Counts ErrorsOf(const Window& window) {
  Counts errors;
  for (const auto& [method, calls] : window.calls) {
    for (const auto& [code, count] : calls.errors) errors[code] += count;
  }
  return errors;
}

const Counts& CountsOf(const TopFigures& figures, Counts Window::*counts) {
  static const Counts kNone;
  return figures.last.has_value() ? (*figures.last).*counts : kNone;
}

double CountOf(const Counts& counts, const std::string& label) {
  const auto found = counts.find(label);
  return found != counts.end() ? found->second : 0;
}

// Version, uptime and resources. Failing scrapes and restarts are alarms.
void AddServer(Lines& lines, const TopView& view) {
  const TopFigures& figures = view.figures;
  if (!view.problem.empty()) {
    lines.push_back(
        {absl::StrCat("NO ANSWER for ", FormatUptime(view.problem_seconds), ": ",
                      Printable(view.problem), "; trying again; the figures below are its last"),
         LineStyle::kAlarm});
  }
  lines.push_back({absl::StrCat("stowage ", Name(figures.version, 20), " at ", view.address, ", ",
                                figures.ready ? "ready" : "NOT READY", ", up ",
                                FormatUptime(figures.uptime_seconds), ", ", view.time),
                   figures.ready ? LineStyle::kTitle : LineStyle::kAlarm});
  const Window& all = figures.since_start;
  const std::string cores =
      figures.last.has_value()
          ? absl::StrFormat("%.2f cores (%.2f since start)",
                            figures.last->PerSecond(figures.last->cpu_seconds),
                            all.PerSecond(all.cpu_seconds))
          : absl::StrFormat("%.2f cores since start", all.PerSecond(all.cpu_seconds));
  lines.push_back({absl::StrCat("memory ", FormatBytes(figures.resident_bytes), ", CPU ", cores,
                                ", open files ", figures.open_files)});
  if (view.restarts > 0) {
    lines.push_back(
        {absl::StrCat("RESTARTED ", view.restarts, view.restarts == 1 ? " time" : " times",
                      " while watched, last ", FormatUptime(figures.uptime_seconds), " ago"),
         LineStyle::kAlarm});
  }
}

enum class CallColumns { kSome, kAll };

// A method's calls in the last interval, "-" where there is none, and since the start.
std::string CallLine(const TopFigures& figures, const std::string& method, CallColumns columns) {
  const auto open = figures.calls_in_flight.find(method);
  std::string line = absl::StrFormat("%-16s%6d", Name(method, 16),
                                     open != figures.calls_in_flight.end() ? open->second : 0);
  const CallFigures& all = figures.since_start.calls.at(method);
  const auto last =
      figures.last.has_value() ? figures.last->calls.find(method) : figures.since_start.calls.end();
  if (!figures.last.has_value() || last == figures.last->calls.end()) {
    absl::StrAppendFormat(&line, "%8s%8s", "-", "-");
    absl::StrAppend(&line, QuantileColumns(std::nullopt));
  } else {
    absl::StrAppendFormat(&line, "%8s%8s", Rate(figures.last->PerSecond(last->second.calls)),
                          Whole(SumOf(last->second.errors)));
    absl::StrAppend(&line, QuantileColumns(last->second.latency));
  }
  absl::StrAppendFormat(&line, "%10s%8s", Whole(all.calls), Whole(SumOf(all.errors)));
  if (columns == CallColumns::kSome) return line;
  absl::StrAppendFormat(&line, "%9s", Rate(figures.since_start.PerSecond(all.calls)));
  return line + QuantileColumns(all.latency);
}

void AddCalls(Lines& lines, const TopFigures& figures, CallColumns columns) {
  AddTitle(lines, absl::StrFormat("%-22s   %-37s   since start", "CALLS", LastTitle(figures)));
  if (figures.since_start.calls.empty()) return lines.push_back({"none yet"});
  std::string header = absl::StrFormat("%-16s%6s%8s%8s%8s%8s%8s%10s%8s", "", "open", "/s", "errors",
                                       "p50", "p90", "p99", "calls", "errors");
  if (columns == CallColumns::kAll)
    absl::StrAppendFormat(&header, "%9s%8s%8s%8s", "/s", "p50", "p90", "p99");
  lines.push_back({header});
  for (const auto& [method, calls] : figures.since_start.calls) {
    lines.push_back({CallLine(figures, method, columns)});
  }
  AddListed(lines, figures,
            {"errors", figures.last.has_value() ? ErrorsOf(*figures.last) : Counts{},
             ErrorsOf(figures.since_start)});
}

void AddAnswers(Lines& lines, const TopFigures& figures) {
  // The sources of this version in a fixed order, then those that only the server has.
  std::vector<std::string> sources = {"memory_cache", "disk_cache", "coalesced", "solved"};
  for (const auto& [source, count] : figures.since_start.answers) {
    if (std::find(sources.begin(), sources.end(), source) == sources.end()) {
      sources.push_back(source);
    }
  }
  std::string title = absl::StrFormat("%-16s%12s", "ANSWERS", "hit ratio");
  std::string last = absl::StrFormat("%-16s", LastTitle(figures) + ", /s");
  std::string all =
      absl::StrFormat("%-16s%12s", "since start", Share(figures.since_start.HitRatio()));
  absl::StrAppendFormat(&last, "%12s",
                        Share(figures.last.has_value() ? figures.last->HitRatio() : std::nullopt));
  for (const std::string& source : sources) {
    absl::StrAppendFormat(&title, "%13s", Name(source, 12));
    absl::StrAppendFormat(&all, "%13s", Whole(CountOf(figures.since_start.answers, source)));
    absl::StrAppendFormat(
        &last, "%13s",
        figures.last.has_value()
            ? Rate(figures.last->PerSecond(CountOf(figures.last->answers, source)))
            : "-");
  }
  AddTitle(lines, title);
  lines.push_back({last});
  lines.push_back({all});
}

// Waiting and running solves against their limits, waiting times, and requests that the queue
// rejected.
void AddQueue(Lines& lines, const TopFigures& figures) {
  AddTitle(lines, absl::StrFormat("%-16s%d/%d waiting, %d/%d running, %s/%s memory", "QUEUE",
                                  figures.solves_waiting, figures.solves_waiting_limit,
                                  figures.solves_running, figures.solves_running_limit,
                                  FormatBytes(figures.solve_bytes),
                                  FormatBytes(figures.solve_limit_bytes)));
  lines.push_back({absl::StrFormat("%-16s%8s%8s%8s  rejected", "waited", "p50", "p90", "p99")});
  const auto line = [](const std::string& name, const std::optional<Quantiles>& wait,
                       const std::string& rejected) {
    return ScreenLine{absl::StrFormat("%-16s%s  %s", name, QuantileColumns(wait), rejected)};
  };
  const auto listed = [](const Counts& rejected) {
    return SumOf(rejected) > 0 ? Listed(rejected) : "0";
  };
  if (figures.last.has_value()) {
    lines.push_back(
        line(LastTitle(figures), figures.last->queue_wait, listed(figures.last->rejected)));
  } else {
    lines.push_back(line(LastTitle(figures), std::nullopt, "-"));
  }
  lines.push_back(
      line("since start", figures.since_start.queue_wait, listed(figures.since_start.rejected)));
}

void AddCaches(Lines& lines, const TopFigures& figures) {
  AddTitle(lines, absl::StrFormat("%-16s%12s%12s%8s%10s%10s%9s", "CACHES", "size", "limit", "full",
                                  "entries", "evicted", "/s"));
  for (const CacheFigures& cache : figures.caches) {
    if (cache.limit_bytes <= 0) {
      lines.push_back({absl::StrFormat("%-16s%12s", cache.tier, "none")});
      continue;
    }
    const double full = static_cast<double>(cache.bytes) / static_cast<double>(cache.limit_bytes);
    lines.push_back({absl::StrFormat(
        "%-16s%12s%12s%8s%10d%10s%9s", cache.tier, FormatBytes(cache.bytes),
        FormatBytes(cache.limit_bytes), FormatPercent(full), cache.entries,
        Whole(CountOf(figures.since_start.evictions, cache.tier)),
        figures.last.has_value()
            ? Rate(figures.last->PerSecond(CountOf(figures.last->evictions, cache.tier)))
            : "-")});
  }
  AddListed(lines, figures,
            {"store failures", CountsOf(figures, &Window::store_failures),
             figures.since_start.store_failures});
}

std::string Bar(double fraction, int columns) {
  const int full = static_cast<int>(std::floor(fraction * columns));
  std::string bar;
  for (int i = 0; i < columns; ++i) bar += i < full ? "█" : "░";
  return bar;
}

void AddRunning(Lines& lines, const TopFigures& figures, int width) {
  if (figures.running.empty()) return AddTitle(lines, "RUNNING         no solve");
  AddTitle(lines, absl::StrFormat("%-16s%-18s%8s%10s  done", "RUNNING", "solver", "stages", "for"));
  const int columns = std::clamp(width - kBeforeBar - 12, 10, kMaxBar);
  for (const RunningFigures& solve : figures.running) {
    lines.push_back(
        {absl::StrFormat("%-16s%-18s%8d%10s  %s %3.0f %%", absl::StrCat("thread ", solve.thread),
                         Name(solve.solver, 18), solve.stages, ShortSeconds(solve.seconds),
                         Bar(solve.fraction, columns), std::floor(solve.fraction * 100))});
  }
}

// A client's figures in a window: calls, refused ones, and the share of a core that its solves
// took.
std::string ClientColumns(const Window& window, const std::string& client) {
  const auto found = window.clients.find(client);
  const ClientFigures figures = found != window.clients.end() ? found->second : ClientFigures();
  return absl::StrFormat("%10s%10s%8.2f", Rate(window.PerSecond(figures.calls)),
                         Whole(figures.refused), window.PerSecond(figures.solve_seconds));
}

// Those whose solves took the most time, then those with the most calls, lately where that is
// known. Nothing where the server names none.
void AddClients(Lines& lines, const TopFigures& figures) {
  constexpr size_t kMaxClients = 5;
  const Window& latest = figures.last.has_value() ? *figures.last : figures.since_start;
  std::vector<std::tuple<double, double, std::string>> busiest;
  for (const auto& [client, its] : latest.clients) {
    if (figures.since_start.clients.at(client).calls > 0) {
      busiest.emplace_back(-its.solve_seconds, -its.calls, client);
    }
  }
  if (busiest.empty()) return;
  std::sort(busiest.begin(), busiest.end());
  busiest.resize(std::min(busiest.size(), kMaxClients));
  AddTitle(lines,
           absl::StrFormat("%-16s        %-28s  since start", "CLIENTS", LastTitle(figures)));
  lines.push_back({absl::StrFormat("%-16s%10s%10s%8s%10s%10s%8s", "", "/s", "refused", "cores",
                                   "/s", "refused", "cores")});
  for (const auto& [solving, calls, client] : busiest) {
    const std::string last = figures.last.has_value()
                                 ? ClientColumns(*figures.last, client)
                                 : absl::StrFormat("%10s%10s%8s", "-", "-", "-");
    lines.push_back({absl::StrFormat("%-16s%s%s", Name(client, 16), last,
                                     ClientColumns(figures.since_start, client))});
  }
}

// The first `columns` characters.
std::string Cut(const std::string& text, int columns) {
  size_t end = 0;
  int shown = 0;
  for (; end < text.size(); ++end) {
    // Continuation bytes of UTF-8 belong to the character before.
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (begins && shown++ == columns) break;
  }
  return text.substr(0, end);
}

}  // namespace

std::string ShortSeconds(double seconds) {
  if (!(seconds > 0)) return "0s";
  const auto three = [](double value, const char* unit) {
    // One decimal less where rounding adds a digit before the point.
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return absl::StrFormat("%.*f%s", decimals, value, unit);
  };
  if (seconds < 0.9995e-3) return three(seconds * 1e6, "us");
  if (seconds < 0.9995) return three(seconds * 1e3, "ms");
  return seconds < 99999.5 ? three(seconds, "s") : absl::StrFormat("%.0fh", seconds / 3600);
}

std::string FormatUptime(double seconds) {
  const auto whole = static_cast<int64_t>(std::clamp(seconds, 0.0, 1e15));
  const auto two = [](int64_t large, const char* its, int64_t small, const char* other) {
    return absl::StrCat(large, " ", its, " ", small, " ", other);
  };
  if (whole >= 86400) return two(whole / 86400, "d", whole % 86400 / 3600, "h");
  if (whole >= 3600) return two(whole / 3600, "h", whole % 3600 / 60, "min");
  if (whole >= 60) return two(whole / 60, "min", whole % 60, "s");
  return absl::StrCat(whole, " s");
}

std::vector<ScreenLine> DrawTop(const TopView& view, int width) {
  Lines lines;
  AddServer(lines, view);
  AddCalls(lines, view.figures, width >= kWideCalls ? CallColumns::kAll : CallColumns::kSome);
  AddAnswers(lines, view.figures);
  AddQueue(lines, view.figures);
  AddCaches(lines, view.figures);
  AddRunning(lines, view.figures, width);
  AddClients(lines, view.figures);
  return lines;
}

std::vector<ScreenLine> Fit(const std::vector<ScreenLine>& lines, ScreenSize size) {
  // Empty lines go first: they only separate the tables. What then does not fit is counted in the
  // last line.
  Lines fit = lines;
  const auto most = static_cast<size_t>(std::max(1, size.lines));
  if (fit.size() > most) std::erase_if(fit, [](const auto& line) { return line.text.empty(); });
  if (fit.size() > most) {
    const size_t left_out = fit.size() - most + 1;
    fit.resize(most);
    fit.back() = {absl::StrCat("… ", left_out, " more lines: make the terminal higher")};
  }
  for (ScreenLine& line : fit) line.text = Cut(line.text, size.columns);
  return fit;
}

std::string PlainText(const std::vector<ScreenLine>& lines) {
  std::string text;
  for (const ScreenLine& line : lines) {
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line.text), "\n");
  }
  return text;
}

}  // namespace stowage
