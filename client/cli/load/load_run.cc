#include "client/cli/load/load_run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/lib/rpc/rpc_client.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/request_message.h"
#include "proto/convert/schedule_message.h"
#include "solver/base/mutex.h"
#include "solver/bounds/memory_range.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kHitBudgets = 8;        // distinct budgets of a chain's hits
constexpr uint64_t kDuplicates = 10;  // consecutive requests that are equal
constexpr size_t kMaxWrongKept = 5;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A chain with its range of budgets.
struct Subject {
  // A request but for its budget. Requests stay messages from here on: what is measured is the
  // server and the wire, and a conversion of every request and answer would take a core from it.
  v1::SolveRequest request;
  Chain chain;
  int64_t low = 0;   // M_low
  int64_t high = 0;  // M_high, above low
};

Subject SubjectOf(const LoadOptions& options, const Chain& chain) {
  const v1::SolveRequest request =
      ToMessage(SolveRequest{chain, options.platform, options.solver, options.solve});
  const int64_t low = FloorOfMemory(chain).bytes;
  return {request, chain, low, std::max(low + 1, StoreAllPeakBytes(chain))};
}

// What is wrong with an answer; empty where its schedule fits and has the predicted makespan.
std::string WrongWith(const Subject& subject, const v1::SolveRequest& request,
                      const v1::SolveResponse& response) {
  if (response.outcome() == v1::INFEASIBLE) return "";
  std::vector<FieldViolation> violations;
  const Schedule schedule = FromMessage(response.schedule(), &violations);
  if (!violations.empty()) return violations.front().problem;
  const auto simulation = Simulate(subject.chain, FromMessage(request.platform()), schedule);
  if (!simulation.ok()) return std::string(simulation.status().message());
  if (!simulation->feasible()) return "its schedule is over a limit";
  const double predicted = response.prediction().makespan_seconds();
  const double actual = simulation->prediction.makespan_seconds;
  if (std::abs(predicted - actual) <= 1e-9 * actual) return "";
  return absl::StrCat("it predicts a makespan of ", predicted, " s, which is ", actual, " s");
}

// One run. Requests are numbered in the order in which callers take them. A request's due time
// follows from its number, and with its kind so do its chain and budget, whichever caller sends it.
class Load {
 public:
  Load(const LoadOptions& options, const std::vector<Chain>& chains) : options_(options) {
    for (const Chain& chain : chains) subjects_.push_back(SubjectOf(options, chain));
  }

  LoadResult Run() {
    {
      // Joined at the end of this scope.
      std::vector<std::jthread> callers;
      callers.reserve(static_cast<size_t>(options_.concurrency));
      for (int i = 0; i < options_.concurrency; ++i) {
        callers.emplace_back([this, i] { Call(static_cast<uint64_t>(i)); });
      }
    }
    MutexLock lock(mutex_);
    result_.seconds = SecondsSince(begin_);
    for (std::vector<double>& latencies : result_.latencies) {
      std::sort(latencies.begin(), latencies.end());
    }
    return std::move(result_);
  }

 private:
  using Ask = std::function<absl::StatusOr<v1::SolveResponse>(const v1::SolveRequest&)>;
  // At one server, or at all of them where calls are repeated. gRPC lets all that are at it share a
  // connection, as the threads of a process would.
  Ask MakeClient(uint64_t seed) const {
    const RemoteOptions& remote = options_.remote;
    if (options_.repeats) {
      return [client = std::make_shared<FailoverClient>(remote, static_cast<uint32_t>(seed))](
                 const v1::SolveRequest& request) { return client->Solve(request); };
    }
    return [client = std::make_shared<RpcClient>(remote.servers[seed % remote.servers.size()],
                                                 remote.credentials),
            timeout = remote.timeout_seconds](const v1::SolveRequest& request) {
      return client->Solve(request, timeout);
    };
  }

  // One caller.
  void Call(uint64_t seed) {
    const Ask ask = MakeClient(seed);
    std::mt19937_64 random(seed);
    std::discrete_distribution<int> kinds(options_.mix.begin(), options_.mix.end());
    while (true) {
      // One sequence for all callers: a slow response delays its own caller only.
      const uint64_t number = sent_.fetch_add(1);
      const Clock::time_point due = DueTime(number);
      if (std::chrono::duration<double>(due - begin_).count() >= options_.seconds) return;
      std::this_thread::sleep_until(due);
      const auto kind = static_cast<LoadKind>(kinds(random));
      const Subject& subject = subjects_[SubjectFor(kind, number)];
      const v1::SolveRequest request = RequestFor(subject, BudgetFor(kind, subject, number));
      const absl::StatusOr<v1::SolveResponse> response = ask(request);
      const double latency = SecondsSince(due);
      Record(kind, latency, response, response.ok() ? WrongWith(subject, request, *response) : "");
    }
  }

  // When request `number` of all callers is due: at a fixed rate from the start, or now.
  Clock::time_point DueTime(uint64_t number) const {
    if (options_.rate <= 0) return Clock::now();
    return begin_ + std::chrono::duration_cast<Clock::duration>(
                        std::chrono::duration<double>(static_cast<double>(number) / options_.rate));
  }

  // Requests of one group are equal: they have the same chain and budget.
  static uint64_t GroupOf(LoadKind kind, uint64_t number) {
    return kind == LoadKind::kDuplicate ? number / kDuplicates : number;
  }
  size_t SubjectFor(LoadKind kind, uint64_t number) const {
    return GroupOf(kind, number) % subjects_.size();
  }
  // Budgets of hits come from a short list. Those of new requests are random, with a seed from the
  // clock, so that an earlier run has not put them into the cache.
  int64_t BudgetFor(LoadKind kind, const Subject& subject, uint64_t number) const {
    const auto range = static_cast<double>(subject.high - subject.low);
    if (kind == LoadKind::kHit) {
      const auto step = static_cast<double>(number % kHitBudgets + 1);
      return subject.low + static_cast<int64_t>(range * step / (kHitBudgets + 1));
    }
    std::mt19937_64 random(run_ + GroupOf(kind, number) * 2 +
                           (kind == LoadKind::kDuplicate ? 1 : 0));
    const double share = std::uniform_real_distribution<double>(0.05, 1)(random);
    return subject.low + static_cast<int64_t>(range * share);
  }

  static v1::SolveRequest RequestFor(const Subject& subject, int64_t memory_bytes) {
    v1::SolveRequest request = subject.request;
    request.mutable_platform()->set_memory_bytes(memory_bytes);
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
    if (result_.wrong.size() < kMaxWrongKept) result_.wrong.push_back(std::move(wrong));
  }

  const LoadOptions& options_;
  std::vector<Subject> subjects_;
  const Clock::time_point begin_ = Clock::now();
  // The seed of new budgets, different in every run.
  const uint64_t run_ =
      static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  std::atomic<uint64_t> sent_{0};  // the next request's number
  Mutex mutex_;
  LoadResult result_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

LoadResult RunLoad(const LoadOptions& options, const std::vector<Chain>& chains) {
  return Load(options, chains).Run();
}

}  // namespace stowage
