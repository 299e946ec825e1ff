// What an Admit of a known chain takes beside a cache hit of Solve: a job that fits its one device
// with a plan, and a Solve of its chain for the memory that the rest of it leaves, which share an
// answer. They are asked in turn in one run, at a rate and as fast as answers arrive. Prints one
// table. Client and server share the cores.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "grpcpp/grpcpp.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "solver/base/quantile.h"
#include "solver/bounds/memory_range.h"
#include "stowage/v1/scheduler.grpc.pb.h"
#include "tests/benchmark/benchmark_flags.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr size_t kCallers = 4;
constexpr int64_t kWeightBytes = int64_t{1} << 30;

[[noreturn]] void Give(const std::string& why) {
  std::fprintf(stderr, "stowage_admit_benchmark: %s\n", why.c_str());
  std::exit(1);
}

// A chain's Solve and Admit, of which the second's plan is the first's answer.
struct Question {
  v1::SolveRequest solve;
  v1::AdmitRequest admit;
};

// A third of the way from the least memory that is enough to all that the layers may take.
Question QuestionOf(const std::string& profile) {
  Question question;
  const auto read =
      FromJson(ReadFile(ProfilePath(profile)), "chain", question.solve.mutable_chain());
  if (!read.ok()) Give(std::string(read.message()));
  const Chain chain = FromMessage(question.solve.chain());
  const int64_t low = FloorOfMemory(chain).bytes;
  const int64_t memory = low + (StoreAllPeakBytes(chain) - low) / 3;
  question.solve.mutable_platform()->set_memory_bytes(memory);
  v1::Job& job = *question.admit.mutable_job();
  *job.mutable_chain() = question.solve.chain();
  v1::Component& weights = *job.add_components();
  weights.set_name("weights");
  weights.set_bytes(kWeightBytes);
  question.admit.add_devices()->mutable_platform()->set_memory_bytes(memory + kWeightBytes);
  return question;
}

struct Latencies {
  std::vector<double> solve;
  std::vector<double> admit;
};

// Asks at one server, over one connection. Thread-safe.
class Client {
 public:
  Client(const std::string& address, Question question)
      : stub_(v1::Scheduler::NewStub(
            grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))),
        question_(std::move(question)) {}

  // Puts the answer of both into the server's cache.
  void Warm() const { (void)Solve(); }

  // `due`: from when it counts.
  void AskSolve(Clock::time_point due, Latencies* latencies) const {
    if (Solve() != v1::Origin::MEMORY_CACHE) Give("an answer of Solve is not from the cache");
    latencies->solve.push_back(Seconds(Clock::now() - due).count());
  }

  void AskAdmit(Clock::time_point due, Latencies* latencies) const {
    Admit();
    latencies->admit.push_back(Seconds(Clock::now() - due).count());
  }

 private:
  v1::Origin::Source Solve() const {
    grpc::ClientContext context;
    v1::SolveResponse response;
    const grpc::Status status = stub_->Solve(&context, question_.solve, &response);
    if (!status.ok()) Give(status.error_message());
    return response.origin().source();
  }

  void Admit() const {
    grpc::ClientContext context;
    v1::AdmitResponse response;
    const grpc::Status status = stub_->Admit(&context, question_.admit, &response);
    if (!status.ok()) Give(status.error_message());
    if (response.verdicts(0).fit() == v1::Verdict::FITS_WITH_PLAN) return;
    Give("the job does not fit with a plan");
  }

  const std::unique_ptr<v1::Scheduler::Stub> stub_;
  const Question question_;
};

// One after the other in turn, each due at a fixed time.
Latencies AtRate(const Client& client, double rate, double seconds) {
  Latencies latencies;
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < rate * seconds; ++i) {
    const auto due = begin + std::chrono::duration_cast<Clock::duration>(Seconds(i / rate));
    std::this_thread::sleep_until(due);
    i % 2 == 0 ? client.AskSolve(due, &latencies) : client.AskAdmit(due, &latencies);
  }
  return latencies;
}

// Callers with one request in flight each.
Latencies InLoop(const Client& client, double seconds) {
  std::array<Latencies, kCallers> of_callers;
  {
    std::vector<std::jthread> callers;  // joined at the end of this scope
    for (Latencies& latencies : of_callers) {
      callers.emplace_back([&client, &latencies, seconds] {
        const Clock::time_point begin = Clock::now();
        while (Seconds(Clock::now() - begin).count() < seconds) {
          client.AskSolve(Clock::now(), &latencies);
          client.AskAdmit(Clock::now(), &latencies);
        }
      });
    }
  }
  Latencies all;
  for (const Latencies& one : of_callers) {
    all.solve.insert(all.solve.end(), one.solve.begin(), one.solve.end());
    all.admit.insert(all.admit.end(), one.admit.begin(), one.admit.end());
  }
  return all;
}

void Row(const std::string& profile, const std::string& load, Latencies latencies) {
  std::sort(latencies.solve.begin(), latencies.solve.end());
  std::sort(latencies.admit.begin(), latencies.admit.end());
  const auto in_ms = [](const std::vector<double>& sorted, double share) {
    return 1e3 * QuantileOf(sorted, share);
  };
  const double solve = in_ms(latencies.solve, 0.99);
  const double admit = in_ms(latencies.admit, 0.99);
  absl::PrintF("%-30s %-14s %8d %9.2f %9.2f %9.2f %9.2f %+9.2f\n", profile, load,
               latencies.admit.size(), in_ms(latencies.solve, 0.5), in_ms(latencies.admit, 0.5),
               solve, admit, admit - solve);
}

int Main(int argc, char** argv) {
  double seconds = 20;
  double rate = 100;
  BenchmarkFlags flags(
      "stowage_admit_benchmark",
      "Prints what an Admit of a known chain takes beside a cache hit of Solve, in "
      "milliseconds.");
  flags.AddNumber("--seconds", {0.1, 3600.0}, &seconds, "of each row");
  flags.AddNumber("--rate", {2.0, 1e5}, &rate, "requests a second, of both kinds together");
  if (const std::optional<int> code = flags.Parse(argc, argv)) return *code;
  absl::PrintF("%-30s %-14s %8s %9s %9s %9s %9s %9s\n", "chain", "load", "of each", "hit p50",
               "Admit p50", "hit p99", "Admit p99", "more");
  for (const char* profile :
       {"pipedream-vgg16-128-224", "torchvision-resnet101-32-224", "preact-resnet1001-8-224"}) {
    const ServerProcess server({"--client-rate", "0"});
    const Client client(server.address(), QuestionOf(profile));
    client.Warm();
    Row(profile, absl::StrFormat("%g a second", rate), AtRate(client, rate, seconds));
    Row(profile, absl::StrFormat("%d callers", kCallers), InLoop(client, seconds));
  }
  return 0;
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
