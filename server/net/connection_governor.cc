#include "server/net/connection_governor.h"

#include <algorithm>
#include <utility>

#include "server/events/observer.h"

namespace stowage {
namespace {

// A call's metadata may take so much; that of its answer half as much.
constexpr double kRequestMetadataBytes = 16 << 10;
constexpr double kAnswerMetadataBytes = 8 << 10;
// Frames and TLS records add less than a sixteenth to a message.
constexpr double kFraming = 17.0 / 16;
// What is forgiven a second: keepalive, windows, handshakes, callers that lose patience.
constexpr double kForgivenReceivedBytes = 256 << 10;
constexpr double kForgivenSentBytes = 32 << 10;
constexpr double kForgivenAbandoned = 500;
constexpr double kForgivenStreams = 100;  // malformed, say, so that they never become calls
// A connection holds as much memory as so many streams.
constexpr double kFewStreams = 2;
// Of answers whose calls have ended no more than this is still to be sent.
constexpr double kMaxUnsentBytes = 128 << 20;

constexpr double kShareOfBarred = 0.25;  // of the limits
constexpr std::chrono::seconds kFirstBarred{60};
constexpr std::chrono::seconds kLongestBarred{600};
constexpr size_t kMaxBarred = 10'000;  // hosts; then those whose time is over are forgotten

double Sink(double level, double rise) { return std::max(0.0, level + rise); }

}  // namespace

void ConnectionGovernor::Add(int id, const std::string& host) {
  connections_[id] = Connection();
  connections_[id].host = host;
}

void ConnectionGovernor::Remove(int id) { connections_.erase(id); }

void ConnectionGovernor::Update(int id, const ConnectionFigures& figures, Clock::time_point now) {
  Connection& its = connections_.at(id);
  const bool is_first = its.updated == Clock::time_point();
  const double seconds = is_first ? 0 : std::chrono::duration<double>(now - its.updated).count();
  const auto since = [&](int64_t ConnectionFigures::*figure) {
    return static_cast<double>(figures.*figure - its.last.*figure);
  };
  const auto calls_since = [&](int64_t CallTotals::*figure) {
    return static_cast<double>(figures.calls.*figure - its.last.calls.*figure);
  };
  const double received = since(&ConnectionFigures::received_bytes);
  const double sent = since(&ConnectionFigures::sent_bytes);
  const double begun = calls_since(&CallTotals::begun);
  const double ended = calls_since(&CallTotals::ended);
  const double abandoned = calls_since(&CallTotals::abandoned);

  const double unexplained =
      received - kFraming * calls_since(&CallTotals::request_bytes) - kRequestMetadataBytes * begun;
  its.unexplained = Sink(its.unexplained, unexplained - kForgivenReceivedBytes * seconds);
  // Nothing is forgiven here: gRPC copies a header that has no end again for each part of it.
  its.silent = sent > 0 ? 0 : Sink(its.silent, unexplained);

  // Answers are counted when they end, and are sent while their caller reads them.
  const auto of_open_calls =
      static_cast<double>(figures.calls.answer_bytes - figures.calls.ended_answer_bytes);
  its.unsent = std::min(kMaxUnsentBytes + kFraming * of_open_calls,
                        its.unsent + kFraming * calls_since(&CallTotals::answer_bytes));
  const double of_answers = std::min(its.unsent, sent);
  its.unsent -= of_answers;
  its.answered = Sink(its.answered, sent - of_answers - kAnswerMetadataBytes * ended -
                                        kForgivenSentBytes * seconds);

  // Those that were abandoned end, too, some later.
  const int64_t answered_calls =
      std::max(its.answered_calls, figures.calls.ended - figures.calls.abandoned);
  its.abandoned =
      Sink(its.abandoned, abandoned - static_cast<double>(answered_calls - its.answered_calls) -
                              kForgivenAbandoned * seconds);
  its.answered_calls = answered_calls;

  its.waiting =
      Sink(its.waiting, since(&ConnectionFigures::streams) - begun - kForgivenStreams * seconds);

  its.last = figures;
  its.updated = now;
}

const char* ConnectionGovernor::ReasonAgainst(const Connection& connection, double share) const {
  const auto exceeds = [share](double level, int64_t limit) {
    return level > share * static_cast<double>(limit);
  };
  const CallTotals& calls = connection.last.calls;
  if (calls.begun - calls.ended > limits_.calls) return kCutResets;
  const int64_t streams = std::min(limits_.streams, limits_.first_streams + calls.begun);
  if (connection.waiting > kMaxOpenStreams && exceeds(connection.waiting, streams)) {
    return kCutResets;
  }
  if (exceeds(connection.abandoned, limits_.abandoned)) return kCutResets;
  if (exceeds(connection.answered, limits_.sent_bytes)) return kCutControl;
  const int64_t arriving =
      std::clamp<int64_t>(connection.last.streams - calls.begun, 0, limits_.streams);
  if (exceeds(connection.silent, limits_.silent_bytes + arriving * limits_.stream_bytes)) {
    return kCutNoCalls;
  }
  return nullptr;
}

std::vector<ConnectionGovernor::Verdict> ConnectionGovernor::Judge(Clock::time_point now) {
  std::vector<Verdict> verdicts;
  for (auto next = connections_.begin(); next != connections_.end();) {
    const auto& [id, connection] = *next++;
    const double share = Bars(connection.host, now) ? kShareOfBarred : 1;
    if (const char* const reason = ReasonAgainst(connection, share); reason != nullptr) {
      CutOff(id, reason, now, &verdicts);
    }
  }
  Reduce(now, &verdicts);
  ReduceStreams(now, &verdicts);
  return verdicts;
}

void ConnectionGovernor::Reduce(Clock::time_point now, std::vector<Verdict>* verdicts) {
  const auto limit = static_cast<double>(limits_.all_bytes);
  double sum = 0;
  for (const auto& [id, connection] : connections_) sum += connection.unexplained;
  if (sum <= limit) return;
  std::vector<std::pair<double, int>> largest;
  for (const auto& [id, connection] : connections_) {
    if (connection.unexplained > 0) largest.emplace_back(connection.unexplained, id);
  }
  std::sort(largest.rbegin(), largest.rend());
  for (const auto& [bytes, id] : largest) {
    if (sum <= limit) return;
    sum -= bytes;
    CutOff(id, kCutNoCalls, now, verdicts);
  }
}

double ConnectionGovernor::StreamsBeyondFew(const Connection& connection) {
  const auto arriving = static_cast<double>(connection.last.arriving);
  return std::max(0.0, std::max(arriving, connection.waiting) - kFewStreams);
}

void ConnectionGovernor::ReduceStreams(Clock::time_point now, std::vector<Verdict>* verdicts) {
  const auto limit = static_cast<double>(limits_.all_streams);
  double sum = 0;
  for (const auto& [id, connection] : connections_) sum += StreamsBeyondFew(connection);
  if (sum <= limit) return;
  struct Host {
    double streams = 0;
    std::vector<int> ids;
  };
  absl::flat_hash_map<std::string, Host> hosts;
  for (const auto& [id, connection] : connections_) {
    const double streams = StreamsBeyondFew(connection);
    if (streams == 0) continue;
    Host& host = hosts[connection.host];
    host.streams += streams;
    host.ids.push_back(id);
  }
  std::vector<Host> largest;
  for (auto& [name, host] : hosts) largest.push_back(std::move(host));
  std::sort(largest.begin(), largest.end(),
            [](const Host& one, const Host& other) { return one.streams > other.streams; });
  for (const Host& host : largest) {
    if (sum <= limit) return;
    sum -= host.streams;
    for (const int id : host.ids) CutOff(id, kCutResets, now, verdicts);
  }
}

void ConnectionGovernor::CutOff(int id, const char* reason, Clock::time_point now,
                                std::vector<Verdict>* verdicts) {
  const auto found = connections_.find(id);
  Bar(found->second.host, now);
  connections_.erase(found);
  verdicts->push_back({id, reason});
}

void ConnectionGovernor::Bar(const std::string& host, Clock::time_point now) {
  if (barred_.size() >= kMaxBarred) {
    absl::erase_if(barred_, [now](const auto& each) { return each.second.until <= now; });
  }
  Barred& its = barred_[host];
  if (now > its.until + kLongestBarred) its.times = 0;
  if (now < its.until) return;  // several connections at a time are one offence
  constexpr int kMaxTimes = 6;
  const auto barred = std::min(kFirstBarred * (1 << its.times), kLongestBarred);
  its.times = std::min(its.times + 1, kMaxTimes);
  its.until = now + barred;
}

bool ConnectionGovernor::Bars(const std::string& host, Clock::time_point now) {
  const auto found = barred_.find(host);
  return found != barred_.end() && now < found->second.until;
}

}  // namespace stowage
