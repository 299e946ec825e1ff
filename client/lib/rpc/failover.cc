#include "client/lib/rpc/failover.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/rpc/failure.h"
#include "client/lib/rpc/retry.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

// With less time than this an attempt could only replace the error by a misleading one.
constexpr double kMinAttemptSeconds = 0.02;
// Without a timeout, how long a call is repeated at servers that say when to come back.
constexpr double kBusySeconds = 10;

// A connection breaks where a server ends, and one server may end for any reason. At the second the
// request is the likely reason, and would end the others, too.
constexpr int kMaxBroken = 1;

std::vector<size_t> RandomOrder(size_t count, uint32_t seed) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  return order;
}

bool IsAnswer(const absl::Status& status) {
  return !absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status);
}

// When a call is given up. Times are seconds since it began.
class Limits {
 public:
  Limits(std::optional<double> timeout, double patience) : timeout_(timeout), patience_(patience) {}

  std::optional<double> Left(double now) const {
    if (!timeout_.has_value()) return std::nullopt;
    return std::max(0.0, *timeout_ - now);
  }

  // Whether an attempt would come too late for the timeout.
  bool HasTimedOut(double next) const {
    return timeout_.has_value() && next + kMinAttemptSeconds >= *timeout_;
  }

  // Counts an attempt that failed at `now`.
  void Add(const absl::Status& failure, double now) {
    first_failure_ = std::min(first_failure_, now);
    if (IsAnswer(failure)) {
      unanswered_since_ = kNever;
    } else {
      unanswered_since_ = std::min(unanswered_since_, now);
    }
  }

  // Whether an attempt at `next`, after the pause that follows the last failure, is too late.
  bool IsOver(double next) const {
    if (HasTimedOut(next)) return true;
    if (next >= unanswered_since_ + patience_) return true;
    return !timeout_.has_value() && next >= first_failure_ + kBusySeconds;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  const std::optional<double> timeout_;
  const double patience_;
  double first_failure_ = kNever;
  double unanswered_since_ = kNever;  // the last attempt was answered
};

// Whether `a` says when to come back, and no later than `b` does.
bool AdvisesSooner(const absl::Status& a, const absl::Status& b) {
  const std::optional<double> soon = AdvisedPause(a);
  return soon.has_value() && *soon <= AdvisedPause(b).value_or(*soon);
}

// A call that ran out of time while it was repeated: why it was repeated says more.
absl::Status After(const absl::Status& earlier, const absl::Status& deadline) {
  if (earlier.ok()) return deadline;
  absl::Status both = absl::DeadlineExceededError(
      absl::StrCat(deadline.message(), "; before that: ", earlier.message()));
  SetObstacle(ObstacleOf(earlier), &both);
  return both;
}

}  // namespace

FailoverTime FailoverTime::Real() {
  return {.now = Clock::now,
          .sleep = [](std::chrono::duration<double> pause) { std::this_thread::sleep_for(pause); }};
}

Failover::Failover(const FailoverOptions& options, FailoverTime time)
    : options_(options),
      time_(std::move(time)),
      order_(RandomOrder(options.servers.size(), options.seed)),
      next_seed_(options.seed) {
  assert(!order_.empty());
}

absl::Status Failover::Call(std::optional<double> timeout_seconds, Rule may_repeat,
                            Attempt attempt) {
  const Clock::time_point begin = time_.now();
  const auto elapsed = [&] { return std::chrono::duration<double>(time_.now() - begin).count(); };
  Limits limits(timeout_seconds, options_.patience_seconds);
  Backoff backoff(next_seed_.fetch_add(1));
  Failures failures(order_.size());
  double now = 0;
  int broken = 0;        // attempts whose connection broke
  size_t in_round = 0;   // attempts since the last pause
  absl::Status soonest;  // of them, the one to pause for
  for (size_t place = first_;; place = (place + 1) % order_.size()) {
    const size_t server = order_[place];
    const absl::Status status = attempt(server, limits.Left(now));
    // A server that hangs is not where the next call begins.
    first_ = IsAnswer(status) ? place : (place + 1) % order_.size();
    failures[server] = absl::IsDeadlineExceeded(status) ? After(failures[server], status) : status;
    if (!may_repeat(status)) return IsAnswer(status) ? status : Summary(failures, status);
    const FailureCause cause = CauseOf(status);
    if (cause == FailureCause::kBrokenConnection && ++broken > kMaxBroken) {
      return Summary(failures, status);
    }
    now = elapsed();
    limits.Add(status, now);
    const bool is_callers = cause == FailureCause::kCallersLimit;
    if (is_callers || in_round == 0 || AdvisesSooner(status, soonest)) soonest = status;
    if (++in_round < order_.size() && !is_callers) {
      if (limits.HasTimedOut(now)) return Summary(failures, status);
      continue;
    }
    const double pause = backoff.NextSeconds(soonest);
    if (limits.IsOver(now + pause)) return Summary(failures, status);
    time_.sleep(std::chrono::duration<double>(pause));
    now = elapsed();
    in_round = 0;
  }
}

absl::Status Failover::Summary(const Failures& failures, const absl::Status& last) const {
  std::vector<std::string> texts;
  absl::Status only;
  Obstacle obstacle = Obstacle::kNone;
  for (size_t server = 0; server < failures.size(); ++server) {
    if (failures[server].ok()) continue;
    only = failures[server];
    obstacle = std::min(obstacle, ObstacleOf(only));
    const std::string& address = options_.servers[server];
    const absl::string_view text = failures[server].message();
    texts.push_back(absl::StrContains(text, address) ? std::string(text)
                                                     : absl::StrCat(address, ": ", text));
  }
  if (texts.size() == 1) return only;
  absl::Status summary(last.code(), absl::StrJoin(texts, "; "));
  SetObstacle(obstacle, &summary);
  if (const auto pause = AdvisedPause(last)) SetAdvisedPause(*pause, &summary);
  return summary;
}

}  // namespace stowage
