#include "client/cli/load/load_run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/schedule_message.h"
#include "solver/base/mutex.h"
#include "solver/bounds/memory_range.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kKnownBudgets = 8;         // questions of a chain that are asked over and over
constexpr uint64_t kAskedTogether = 10;  // times that a duplicate is asked before the next one
constexpr size_t kMostWrongKept = 5;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A chain and what its budgets run between.
struct Subject {
  v1::Chain message;
  Chain chain;
  int64_t low = 0;
  int64_t high = 0;
};

Subject SubjectOf(const v1::Chain& message) {
  Subject subject{message, FromMessage(message)};
  subject.low = FloorOfMemory(subject.chain).bytes;
  subject.high = std::max(subject.low + 1, StoreAllPeakBytes(subject.chain));
  return subject;
}

// Empty where the answer is right: its schedule fits and costs what it says.
std::string WrongWith(const Subject& subject, const v1::SolveRequest& request,
                      const v1::SolveResponse& response) {
  if (response.outcome() == v1::INFEASIBLE) return "";
  std::vector<FieldViolation> violations;
  const Schedule schedule = FromMessage(response.schedule(), &violations);
  if (!violations.empty()) return violations.front().problem;
  const auto simulation = Simulate(subject.chain, FromMessage(request.platform()), schedule);
  if (!simulation.ok()) return std::string(simulation.status().message());
  if (!simulation->feasible()) return "its schedule is over a limit";
  const double says = response.prediction().makespan_seconds();
  const double takes = simulation->prediction.makespan_seconds;
  if (std::abs(says - takes) <= 1e-9 * takes) return "";
  return absl::StrCat("its makespan is said to be ", says, " s, and is ", takes, " s");
}

class Load {
 public:
  Load(const LoadOptions& options, const std::vector<v1::Chain>& chains) : options_(options) {
    for (const v1::Chain& chain : chains) subjects_.push_back(SubjectOf(chain));
  }

  LoadResult Run() {
    {
      std::vector<std::jthread> callers;
      for (int i = 0; i < options_.concurrency; ++i) {
        callers.emplace_back([this, i] { Call(static_cast<uint64_t>(i)); });
      }
    }
    result_.seconds = SecondsSince(begin_);
    for (std::vector<double>& latencies : result_.latencies) {
      std::sort(latencies.begin(), latencies.end());
    }
    return std::move(result_);
  }

 private:
  // One caller. gRPC lets all of them share a connection, as the threads of a process would.
  void Call(uint64_t seed) {
    Client client(options_.client);
    std::mt19937_64 random(seed);
    std::discrete_distribution<int> kinds(options_.mix.begin(), options_.mix.end());
    while (true) {
      const uint64_t number = asked_.fetch_add(1);
      const Clock::time_point due = DueTime(number);
      if (std::chrono::duration<double>(due - begin_).count() >= options_.seconds) return;
      std::this_thread::sleep_until(due);
      const auto kind = static_cast<LoadKind>(kinds(random));
      const Subject& subject = subjects_[SubjectFor(kind, number)];
      const v1::SolveRequest request = QuestionOf(subject, BudgetFor(kind, subject, number));
      const absl::StatusOr<v1::SolveResponse> response = client.Solve(request);
      const double latency = SecondsSince(due);
      Record(kind, latency, response, response.ok() ? WrongWith(subject, request, *response) : "");
    }
  }

  Clock::time_point DueTime(uint64_t number) const {
    if (options_.rate <= 0) return Clock::now();
    return begin_ + std::chrono::duration_cast<Clock::duration>(
                        std::chrono::duration<double>(static_cast<double>(number) / options_.rate));
  }

  // Duplicates change together, whoever asks them.
  static uint64_t GroupOf(LoadKind kind, uint64_t number) {
    return kind == LoadKind::kDuplicate ? number / kAskedTogether : number;
  }
  size_t SubjectFor(LoadKind kind, uint64_t number) const {
    return GroupOf(kind, number) % subjects_.size();
  }
  // Of new questions none is near another or was asked in another run, so far as a clock tells.
  int64_t BudgetFor(LoadKind kind, const Subject& subject, uint64_t number) const {
    const auto range = static_cast<double>(subject.high - subject.low);
    if (kind == LoadKind::kHit) {
      const auto step = static_cast<double>(number % kKnownBudgets + 1);
      return subject.low + static_cast<int64_t>(range * step / (kKnownBudgets + 1));
    }
    std::mt19937_64 random(run_ + GroupOf(kind, number) * 2 +
                           (kind == LoadKind::kDuplicate ? 1 : 0));
    const double share = std::uniform_real_distribution<double>(0.05, 1)(random);
    return subject.low + static_cast<int64_t>(range * share);
  }

  v1::SolveRequest QuestionOf(const Subject& subject, int64_t memory_bytes) const {
    v1::SolveRequest request;
    *request.mutable_chain() = subject.message;
    *request.mutable_platform() = options_.platform;
    request.mutable_platform()->set_memory_bytes(memory_bytes);
    request.set_solver(options_.solver);
    *request.mutable_options() = options_.solve;
    return request;
  }

  void Record(LoadKind kind, double latency, const absl::StatusOr<v1::SolveResponse>& response,
              std::string wrong) {
    MutexLock lock(mutex_);
    if (!response.ok()) {
      ++result_.errors[absl::StatusCodeToString(response.status().code())];
      return;
    }
    ++result_.answers;
    result_.latencies[static_cast<size_t>(kind)].push_back(latency);
    ++result_.sources[v1::Origin::Source_Name(response->origin().source())];
    if (wrong.empty()) return;
    ++result_.wrong_answers;
    if (result_.wrong.size() < kMostWrongKept) result_.wrong.push_back(std::move(wrong));
  }

  const LoadOptions& options_;
  std::vector<Subject> subjects_;
  const Clock::time_point begin_ = Clock::now();
  const uint64_t run_ =
      static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  std::atomic<uint64_t> asked_{0};
  Mutex mutex_;
  LoadResult result_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

LoadResult RunLoad(const LoadOptions& options, const std::vector<v1::Chain>& chains) {
  return Load(options, chains).Run();
}

double PercentileOf(const std::vector<double>& sorted, double share) {
  const double at = std::ceil(share * static_cast<double>(sorted.size())) - 1;
  return sorted[static_cast<size_t>(std::clamp(at, 0.0, static_cast<double>(sorted.size() - 1)))];
}

}  // namespace stowage
