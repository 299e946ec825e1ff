#include "client/cli/top/top_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
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

// "412.5", "12345"
std::string Rate(double per_second) {
  return absl::StrFormat("%.*f", per_second < 9999.95 ? 1 : 0, per_second);
}

// A name from the server, truncated and printable.
std::string Name(const std::string& name, size_t columns) {
  return Printable(name).substr(0, columns);
}

std::string LastTitle(const v1::ServerStatus& status) {
  if (!status.has_last()) return "last interval";
  return absl::StrFormat("last %.1f s", status.last().seconds());
}

// Three columns of seven characters.
std::string QuantileColumns(bool has_any, const v1::Quantiles& quantiles) {
  if (!has_any) return absl::StrFormat("%8s%8s%8s", "-", "-", "-");
  return absl::StrFormat("%8s%8s%8s", ShortSeconds(quantiles.p50()), ShortSeconds(quantiles.p90()),
                         ShortSeconds(quantiles.p99()));
}

using Counts = std::map<std::string, int64_t>;

// "3 invalid, 12 queue_full"; empty where all counts are 0.
std::string Listed(const Counts& counts) {
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) {
    if (count > 0) parts.push_back(absl::StrCat(count, " ", Name(name, 24)));
  }
  return absl::StrJoin(parts, ", ");
}

Counts CountsOf(const NamedCounts& named) {
  Counts counts;
  for (const v1::NamedCount& count : named) counts[count.name()] += count.count();
  return counts;
}

int64_t SumOf(const NamedCounts& counts) {
  int64_t sum = 0;
  for (const v1::NamedCount& count : counts) sum += count.count();
  return sum;
}

int64_t CountOf(const NamedCounts& counts, const std::string& name) {
  for (const v1::NamedCount& count : counts) {
    if (count.name() == name) return count.count();
  }
  return 0;
}

// "errors: last 2.0 s: 2 Canceled; since start: 14 Canceled", of events of one kind.
void AddListed(Lines& lines, const v1::ServerStatus& status, const char* what,
               Counts (*events)(const v1::StatusWindow&)) {
  const std::string all = Listed(events(status.since_start()));
  if (all.empty()) return;
  const std::string last = Listed(events(status.last()));
  std::string text = absl::StrCat(what, ": ");
  if (!last.empty()) absl::StrAppend(&text, LastTitle(status), ": ", last, "; ");
  lines.push_back({absl::StrCat(text, "since start: ", all)});
}

// Of all methods, by code.
Counts ErrorsOf(const v1::StatusWindow& window) {
  Counts errors;
  for (const v1::MethodCalls& calls : window.calls()) {
    for (const v1::NamedCount& error : calls.errors()) errors[error.name()] += error.count();
  }
  return errors;
}

// Version, uptime and resources. Failing fetches and restarts are alarms.
void AddServer(Lines& lines, const TopView& view) {
  const v1::ServerStatus& status = view.status;
  if (!view.problem.empty()) {
    lines.push_back(
        {absl::StrCat("NO ANSWER for ", FormatUptime(view.problem_seconds), ": ",
                      Printable(view.problem), "; trying again; the figures below are its last"),
         LineStyle::kAlarm});
  }
  lines.push_back({absl::StrCat("stowage ", Name(status.version(), 20), " at ", view.address, ", ",
                                status.ready() ? "ready" : "NOT READY", ", up ",
                                FormatUptime(status.uptime_seconds()), ", ", view.time),
                   status.ready() ? LineStyle::kTitle : LineStyle::kAlarm});
  const auto cores = [](const v1::StatusWindow& window) {
    return PerSecond(window.cpu_seconds(), window);
  };
  const std::string text =
      status.has_last() ? absl::StrFormat("%.2f cores (%.2f since start)", cores(status.last()),
                                          cores(status.since_start()))
                        : absl::StrFormat("%.2f cores since start", cores(status.since_start()));
  lines.push_back({absl::StrCat("memory ", FormatBytes(status.resident_bytes()), ", CPU ", text,
                                ", open files ", status.open_files())});
  if (view.restarts > 0) {
    lines.push_back(
        {absl::StrCat("RESTARTED ", view.restarts, view.restarts == 1 ? " time" : " times",
                      " while watched, last ", FormatUptime(status.uptime_seconds()), " ago"),
         LineStyle::kAlarm});
  }
}

enum class CallColumns { kSome, kAll };

// Null: the window has none of that method.
const v1::MethodCalls* CallsOf(const v1::StatusWindow& window, const std::string& method) {
  for (const v1::MethodCalls& calls : window.calls()) {
    if (calls.method() == method) return &calls;
  }
  return nullptr;
}

// A method's calls in the last interval, "-" where there is none, and since the start.
std::string CallLine(const v1::ServerStatus& status, const v1::MethodCalls& all,
                     CallColumns columns) {
  std::string line = absl::StrFormat("%-16s%6d", Name(all.method(), 16),
                                     CountOf(status.calls_in_flight(), all.method()));
  if (const v1::MethodCalls* const last = CallsOf(status.last(), all.method())) {
    absl::StrAppendFormat(&line, "%8s%8d", Rate(PerSecond(last->calls(), status.last())),
                          SumOf(last->errors()));
    absl::StrAppend(&line, QuantileColumns(last->has_latency_seconds(), last->latency_seconds()));
  } else {
    absl::StrAppendFormat(&line, "%8s%8s", "-", "-");
    absl::StrAppend(&line, QuantileColumns(false, {}));
  }
  absl::StrAppendFormat(&line, "%10d%8d", all.calls(), SumOf(all.errors()));
  if (columns == CallColumns::kSome) return line;
  absl::StrAppendFormat(&line, "%9s", Rate(PerSecond(all.calls(), status.since_start())));
  return line + QuantileColumns(all.has_latency_seconds(), all.latency_seconds());
}

void AddCalls(Lines& lines, const v1::ServerStatus& status, CallColumns columns) {
  AddTitle(lines, absl::StrFormat("%-22s   %-37s   since start", "CALLS", LastTitle(status)));
  if (status.since_start().calls().empty()) return lines.push_back({"none yet"});
  std::string header = absl::StrFormat("%-16s%6s%8s%8s%8s%8s%8s%10s%8s", "", "open", "/s", "errors",
                                       "p50", "p90", "p99", "calls", "errors");
  if (columns == CallColumns::kAll)
    absl::StrAppendFormat(&header, "%9s%8s%8s%8s", "/s", "p50", "p90", "p99");
  lines.push_back({header});
  for (const v1::MethodCalls& calls : status.since_start().calls()) {
    lines.push_back({CallLine(status, calls, columns)});
  }
  AddListed(lines, status, "errors", ErrorsOf);
}

// "-" where there is no last interval.
std::string LastRate(const v1::ServerStatus& status, const NamedCounts& counts,
                     const std::string& name) {
  return status.has_last() ? Rate(PerSecond(CountOf(counts, name), status.last())) : "-";
}

void AddAnswers(Lines& lines, const v1::ServerStatus& status) {
  // The sources of this version in a fixed order, then those that only the server has.
  std::vector<std::string> sources = {"memory_cache", "disk_cache", "coalesced", "solved"};
  const NamedCounts& counts = status.since_start().answers();
  for (const v1::NamedCount& count : counts) {
    if (std::find(sources.begin(), sources.end(), count.name()) == sources.end()) {
      sources.push_back(count.name());
    }
  }
  const auto ratio = [](const v1::StatusWindow& window) {
    return window.has_hit_ratio() ? FormatPercent(window.hit_ratio()) : "-";
  };
  std::string title = absl::StrFormat("%-16s%12s", "ANSWERS", "hit ratio");
  std::string last = absl::StrFormat("%-16s%12s", LastTitle(status) + ", /s", ratio(status.last()));
  std::string all = absl::StrFormat("%-16s%12s", "since start", ratio(status.since_start()));
  for (const std::string& source : sources) {
    absl::StrAppendFormat(&title, "%13s", Name(source, 12));
    absl::StrAppendFormat(&last, "%13s", LastRate(status, status.last().answers(), source));
    absl::StrAppendFormat(&all, "%13d", CountOf(counts, source));
  }
  AddTitle(lines, title);
  lines.push_back({last});
  lines.push_back({all});
}

// Waiting and running solves against their limits, waiting times, and requests that the queue
// rejected.
void AddQueue(Lines& lines, const v1::ServerStatus& status) {
  const v1::SolveCapacity& solves = status.solves();
  AddTitle(lines, absl::StrFormat("%-16s%d/%d waiting, %d/%d running, %s/%s memory", "QUEUE",
                                  solves.waiting(), solves.waiting_limit(), solves.running(),
                                  solves.running_limit(), FormatBytes(solves.bytes()),
                                  FormatBytes(solves.limit_bytes())));
  lines.push_back({absl::StrFormat("%-16s%8s%8s%8s  rejected", "waited", "p50", "p90", "p99")});
  const auto add = [&lines](const std::string& name, const v1::StatusWindow& window,
                            const char* nothing) {
    const std::string rejected = Listed(CountsOf(window.rejected()));
    lines.push_back({absl::StrFormat(
        "%-16s%s  %s", name, QuantileColumns(window.has_queue_seconds(), window.queue_seconds()),
        rejected.empty() ? nothing : rejected)});
  };
  add(LastTitle(status), status.last(), status.has_last() ? "0" : "-");
  add("since start", status.since_start(), "0");
}

void AddCaches(Lines& lines, const v1::ServerStatus& status) {
  AddTitle(lines, absl::StrFormat("%-16s%12s%12s%8s%10s%10s%9s", "CACHES", "size", "limit", "full",
                                  "entries", "evicted", "/s"));
  for (const v1::CacheStatus& cache : status.caches()) {
    const std::string name = Name(cache.name(), 16);
    if (cache.limit_bytes() <= 0) {
      lines.push_back({absl::StrFormat("%-16s%12s", name, cache.in_use() ? "in use" : "none")});
      continue;
    }
    const double full =
        static_cast<double>(cache.bytes()) / static_cast<double>(cache.limit_bytes());
    lines.push_back(
        {absl::StrFormat("%-16s%12s%12s%8s%10d%10d%9s", name, FormatBytes(cache.bytes()),
                         FormatBytes(cache.limit_bytes()), FormatPercent(full), cache.entries(),
                         CountOf(status.since_start().evictions(), cache.name()),
                         LastRate(status, status.last().evictions(), cache.name()))});
  }
  AddListed(lines, status, "store failures",
            [](const v1::StatusWindow& window) { return CountsOf(window.store_failures()); });
}

std::string Bar(double fraction, int columns) {
  const int full = static_cast<int>(std::floor(fraction * columns));
  std::string bar;
  for (int i = 0; i < columns; ++i) bar += i < full ? "█" : "░";
  return bar;
}

void AddRunning(Lines& lines, const v1::ServerStatus& status, int width) {
  if (status.running().empty()) return AddTitle(lines, "RUNNING         no solve");
  AddTitle(lines, absl::StrFormat("%-16s%-18s%8s%10s  done", "RUNNING", "solver", "stages", "for"));
  const int columns = std::clamp(width - kBeforeBar - 12, 10, kMaxBar);
  for (const v1::SolveProgress& solve : status.running()) {
    // Also where it is no number.
    const double done = solve.fraction() > 0 ? std::min(solve.fraction(), 1.0) : 0;
    lines.push_back(
        {absl::StrFormat("%-16s%-18s%8d%10s  %s %3.0f %%", absl::StrCat("thread ", solve.thread()),
                         Name(solve.solver(), 18), solve.stages(), ShortSeconds(solve.seconds()),
                         Bar(done, columns), std::floor(done * 100))});
  }
}

// A client's figures in a window: calls, refused ones, and the share of a core that its solves
// took.
std::string ClientColumns(const v1::StatusWindow& window, const std::string& name) {
  v1::ClientCalls calls;
  for (const v1::ClientCalls& client : window.clients()) {
    if (client.client() == name) calls = client;
  }
  return absl::StrFormat("%10s%10d%8.2f", Rate(PerSecond(calls.calls(), window)), calls.refused(),
                         PerSecond(calls.solve_seconds(), window));
}

// Those whose solves took the most time, then those with the most calls, lately where that is
// known. Nothing where the server names none.
void AddClients(Lines& lines, const v1::ServerStatus& status) {
  constexpr size_t kMaxClients = 5;
  std::set<std::string> callers;
  for (const v1::ClientCalls& client : status.since_start().clients()) {
    if (client.calls() > 0) callers.insert(client.client());
  }
  std::vector<std::tuple<double, int64_t, std::string>> busiest;
  for (const auto& client : (status.has_last() ? status.last() : status.since_start()).clients()) {
    if (callers.count(client.client()) > 0) {
      busiest.emplace_back(-client.solve_seconds(), -client.calls(), client.client());
    }
  }
  if (busiest.empty()) return;
  std::sort(busiest.begin(), busiest.end());
  busiest.resize(std::min(busiest.size(), kMaxClients));
  AddTitle(lines, absl::StrFormat("%-16s        %-28s  since start", "CLIENTS", LastTitle(status)));
  lines.push_back({absl::StrFormat("%-16s%10s%10s%8s%10s%10s%8s", "", "/s", "refused", "cores",
                                   "/s", "refused", "cores")});
  for (const auto& [solving, calls, client] : busiest) {
    const std::string last = status.has_last() ? ClientColumns(status.last(), client)
                                               : absl::StrFormat("%10s%10s%8s", "-", "-", "-");
    lines.push_back({absl::StrFormat("%-16s%s%s", Name(client, 16), last,
                                     ClientColumns(status.since_start(), client))});
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
  const auto whole = static_cast<int64_t>(seconds > 0 ? std::min(seconds, 1e15) : 0);
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
  AddCalls(lines, view.status, width >= kWideCalls ? CallColumns::kAll : CallColumns::kSome);
  AddAnswers(lines, view.status);
  AddQueue(lines, view.status);
  AddCaches(lines, view.status);
  AddRunning(lines, view.status, width);
  AddClients(lines, view.status);
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
