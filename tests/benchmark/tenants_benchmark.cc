// What an honest client feels of a hostile one on the same server: latencies alone, and beside each
// attack. Known answers are cache hits; new ones are requests of some milliseconds that nobody has
// sent before. All share the machine's cores. Prints one table.
//   stowage_tenants_benchmark [SECONDS]    of each attack, default 60
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "grpcpp/grpcpp.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "proto/convert/request_message.h"
#include "solver/bounds/memory_range.h"
#include "stowage/v1/scheduler.grpc.pb.h"
#include "tests/support/files.h"
#include "tests/support/forged_requests.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kHonest = "token-of-the-honest-0123456789";
constexpr const char* kHostile = "token-of-the-hostile-0123456789";

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A connection with a client's token.
class Client {
 public:
  Client(const std::string& address, const char* token) : token_(token) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    stub_ = v1::Scheduler::NewStub(channel_);
  }

  grpc::Status Solve(const v1::SolveRequest& request, double timeout_seconds,
                     v1::SolveResponse* response) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", absl::StrCat("Bearer ", token_));
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(static_cast<int64_t>(1e3 * timeout_seconds)));
    return stub_->Solve(&context, request, response);
  }

 private:
  const std::string token_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Scheduler::Stub> stub_;
};

v1::Chain Profile(const std::string& name) {
  v1::Chain chain;
  if (!FromJson(ReadFile(ProfilePath(name)), "chain", &chain).ok()) std::abort();
  return chain;
}

// `stages` stages of a 339-stage network, in a given share of the memory that they need.
v1::SolveRequest Repeated(int stages, double share) {
  const v1::Chain once = Profile("preact-resnet1001-8-224");
  v1::SolveRequest request;
  *request.mutable_chain() = once;
  request.mutable_chain()->clear_stages();
  for (int i = 0; i < stages; ++i) {
    *request.mutable_chain()->add_stages() = once.stages(i % once.stages_size());
  }
  const auto all = static_cast<double>(StoreAllPeakBytes(FromMessage(request.chain())));
  request.mutable_platform()->set_memory_bytes(static_cast<int64_t>(share * all));
  return request;
}

// Of the honest client: some milliseconds, and different for each number.
v1::SolveRequest New(int64_t number) {
  v1::SolveRequest request;
  *request.mutable_chain() = Profile("torchvision-resnet101-32-224");
  request.mutable_chain()->set_input_bytes(request.chain().input_bytes() + 4096 * number);
  const Chain chain = FromMessage(request.chain());
  const auto all = static_cast<double>(StoreAllPeakBytes(chain));
  request.mutable_platform()->set_memory_bytes(static_cast<int64_t>(0.4 * all));
  request.set_solver("rotor");
  return request;
}

struct Latencies {
  std::vector<double> known;
  std::vector<double> fresh;
  int refused = 0;
};

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<size_t>(share * static_cast<double>(values.size())))];
}

// The honest client: 100 known answers and 5 new ones a second.
Latencies Measure(const std::string& address, double seconds) {
  static std::atomic<int64_t> number{1};
  Client client(address, kHonest);
  Latencies latencies;
  const v1::SolveRequest known = New(0);
  v1::SolveResponse response;
  for (int i = 0; i < 3; ++i) (void)client.Solve(known, 100, &response);
  const auto timed = [&](const v1::SolveRequest& request, std::vector<double>* to) {
    const auto begin = Clock::now();
    if (client.Solve(request, 100, &response).ok()) {
      to->push_back(1e3 * SecondsSince(begin));
    } else {
      ++latencies.refused;
    }
  };
  const auto begin = Clock::now();
  for (int64_t tick = 0; SecondsSince(begin) < seconds; ++tick) {
    if (tick % 20 == 0) {
      timed(New(number++), &latencies.fresh);
    } else {
      timed(known, &latencies.known);
    }
    std::this_thread::sleep_until(begin + std::chrono::milliseconds(10 * (tick + 1)));
  }
  return latencies;
}

// What the hostile client does, until told to stop.
struct Attack {
  const char* name;
  std::function<void(const std::string& address, const std::atomic<bool>& stop)> run;
};

// `callers` callers that call again as soon as they are answered.
Attack Flood(const char* name, int callers, std::function<v1::SolveRequest(int64_t)> request) {
  return {name, [callers, request](const std::string& address, const std::atomic<bool>& stop) {
            std::atomic<int64_t> number{0};
            std::vector<std::jthread> threads;
            threads.reserve(static_cast<size_t>(callers));
            for (int i = 0; i < callers; ++i) {
              threads.emplace_back([&] {
                Client client(address, kHostile);
                v1::SolveResponse response;
                while (!stop) (void)client.Solve(request(number++), 5, &response);
              });
            }
          }};
}

std::vector<Attack> Attacks() {
  const v1::SolveRequest longest = Repeated(10'000, 0.01);
  v1::SolveRequest slow = Repeated(339, 0.2);
  slow.mutable_platform()->set_offload_bytes_per_second(12e9);
  v1::SolveRequest bad = New(0);
  bad.set_solver("rotter");
  const auto changed = [](const v1::SolveRequest& request, int64_t number) {
    v1::SolveRequest other = request;
    other.mutable_chain()->set_input_bytes(request.chain().input_bytes() + 4096 * number);
    return other;
  };
  return {
      Flood("two solves of 10,000 stages", 2,
            [=](int64_t number) { return changed(longest, number); }),
      Flood("64 solves of some seconds", 64, [=](int64_t number) { return changed(slow, number); }),
      Flood("64 callers of invalid requests", 64, [=](int64_t) { return bad; }),
      Flood("64 callers of known answers", 64, [=](int64_t) { return New(0); }),
      Flood("the honest client's next requests, queued behind others", 32,
            [=](int64_t number) { return number % 2 == 0 ? changed(slow, number) : New(number); }),
      Flood("forged requests", 8, [](int64_t) { return ToMessage(ForgedRequest()); }),
  };
}

void Print(const char* name, const Latencies& latencies) {
  absl::PrintF("%-58s %8.2f %8.2f %9.1f %9.1f %8d\n", name, Quantile(latencies.known, 0.5),
               Quantile(latencies.known, 0.99), Quantile(latencies.fresh, 0.5),
               Quantile(latencies.fresh, 0.99), latencies.refused);
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 60;
  const TempFolder folder;
  const ServerProcess server(
      {"--token-file",
       folder.Write("tokens", absl::StrCat("honest ", kHonest, "\nhostile ", kHostile, "\n"))});
  absl::PrintF("%-58s %8s %8s %9s %9s %8s\n", "milliseconds", "known", "p99", "new", "p99",
               "refused");
  Print("alone", Measure(server.address(), seconds));
  for (const Attack& attack : Attacks()) {
    std::atomic<bool> stop{false};
    std::thread hostile([&] { attack.run(server.address(), stop); });
    std::this_thread::sleep_for(std::chrono::seconds(1));
    Print(attack.name, Measure(server.address(), seconds));
    stop = true;
    hostile.join();
  }
  return 0;
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
