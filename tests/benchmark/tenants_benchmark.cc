// What an honest client feels of a hostile one on the same server: latencies alone, and beside each
// attack. Known answers are cache hits; new ones are requests of some milliseconds that nobody has
// sent before. Prints one table. The hostile client is a process of its own that runs only when
// nothing else would, as though it had another machine: what is measured is the server's work for
// it, not its own.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "proto/convert/request_message.h"
#include "solver/bounds/memory_range.h"
#include "stowage/v1/scheduler.grpc.pb.h"
#include "tests/benchmark/benchmark_flags.h"
#include "tests/support/files.h"
#include "tests/support/forged_requests.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kHonest = "token-of-the-honest-0123456789";
constexpr const char* kHostile = "token-of-the-hostile-0123456789";
constexpr const char* kUnlimited = "token-of-the-unlimited-0123456789";  // in its rate alone

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// With a connection of its own.
std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// A connection with a client's token.
class Client {
 public:
  Client(const std::string& address, const char* token)
      : token_(token), stub_(v1::Scheduler::NewStub(NewChannel(address))) {}

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
  const std::unique_ptr<v1::Scheduler::Stub> stub_;
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
    v1::Stage& stage = *request.mutable_chain()->add_stages();
    stage = once.stages(i % once.stages_size());
    stage.clear_name();  // names are unique or empty
  }
  const auto all = static_cast<double>(StoreAllPeakBytes(FromMessage(request.chain())));
  request.mutable_platform()->set_memory_bytes(static_cast<int64_t>(share * all));
  return request;
}

// `request` with a chain that no other number has.
v1::SolveRequest Changed(v1::SolveRequest request, int64_t number) {
  v1::Chain& chain = *request.mutable_chain();
  chain.set_input_bytes(chain.input_bytes() + 4096 * number);
  return request;
}

// Of the honest client: some milliseconds, and different for each number.
v1::SolveRequest New(int64_t number) {
  static const v1::SolveRequest first = [] {
    v1::SolveRequest request;
    *request.mutable_chain() = Profile("torchvision-resnet101-32-224");
    const auto all = static_cast<double>(StoreAllPeakBytes(FromMessage(request.chain())));
    request.mutable_platform()->set_memory_bytes(static_cast<int64_t>(0.4 * all));
    request.set_solver("rotor");
    return request;
  }();
  return Changed(first, number);
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

constexpr int kNewPerSecond = 5;

// The honest client: 95 known answers and 5 new ones a second. `first`: the number of the first
// new one.
Latencies Measure(const std::string& address, double seconds, int64_t first) {
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
  constexpr int kTicksPerSecond = 100;
  constexpr std::chrono::milliseconds kTick{1000 / kTicksPerSecond};
  const auto begin = Clock::now();
  for (int64_t tick = 0; SecondsSince(begin) < seconds; ++tick) {
    if (tick % (kTicksPerSecond / kNewPerSecond) == 0) {
      timed(New(first++), &latencies.fresh);
    } else {
      timed(known, &latencies.known);
    }
    std::this_thread::sleep_until(begin + kTick * (tick + 1));
  }
  return latencies;
}

// Where an attack is: the server, and which of the honest client's new requests is next.
struct Place {
  std::string address;
  int64_t first;
  Clock::time_point begin = Clock::now();

  int64_t Next() const { return first + static_cast<int64_t>(SecondsSince(begin) * kNewPerSecond); }
};

// What the hostile client does, until it is killed.
struct Attack {
  const char* name;
  std::function<void(const Place&)> run;
};

// Runs `loop` in `count` threads, forever.
void InThreads(int count, const std::function<void()>& loop) {
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) threads.emplace_back(loop);
}

// `callers` callers that call again as soon as they are answered.
Attack Flood(const char* name, int callers,
             std::function<v1::SolveRequest(const Place&, int64_t)> request) {
  return {name, [callers, request](const Place& place) {
            std::atomic<int64_t> number{0};
            InThreads(callers, [&] {
              Client client(place.address, kHostile);
              v1::SolveResponse response;
              while (true) (void)client.Solve(request(place, number++), 5, &response);
            });
          }};
}

// Sends the same bytes from so many callers at a time, a thousand over each connection, and returns
// once all are answered.
void AskTogether(const std::string& address, const std::string& bytes, int callers) {
  constexpr int kOfAConnection = 1000;
  struct PendingCall {
    grpc::ClientContext context;
    grpc::ByteBuffer answer;
  };
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  std::vector<PendingCall> calls(static_cast<size_t>(callers));
  std::unique_ptr<grpc::GenericStub> stub;
  std::latch left(callers);
  for (int i = 0; i < callers; ++i) {
    if (i % kOfAConnection == 0) stub = std::make_unique<grpc::GenericStub>(NewChannel(address));
    PendingCall& call = calls[static_cast<size_t>(i)];
    call.context.AddMetadata("authorization", absl::StrCat("Bearer ", kUnlimited));
    stub->UnaryCall(&call.context, "/stowage.v1.Scheduler/Solve", {}, &request, &call.answer,
                    [&left, &call](const grpc::Status& /*status*/) {
                      call.answer.Clear();
                      left.count_down();
                    });
  }
  left.wait();
}

// Connects, sends nothing and disconnects, from a host of its own.
void Connect(const std::string& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  inet_pton(AF_INET, "127.0.0.2", &to.sin_addr);
  (void)bind(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to));
  const std::vector<std::string> parts = absl::StrSplit(address, ':');
  inet_pton(AF_INET, parts[0].c_str(), &to.sin_addr);
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(parts[1])));
  (void)connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to));
  close(fd);
}

std::vector<Attack> Attacks() {
  const auto slow = [](int64_t number) {
    static const v1::SolveRequest request = [] {
      v1::SolveRequest made = Repeated(339, 0.2);
      made.mutable_platform()->set_offload_bytes_per_second(12e9);
      return made;
    }();
    return Changed(request, number);
  };
  const auto longest = [](int64_t number) {
    static const v1::SolveRequest request = Repeated(10'000, 0.01);
    return Changed(request, number);
  };
  const auto bad = [] {
    v1::SolveRequest request = New(0);
    request.set_solver("rotter");
    return request;
  };
  // Half are among the next ones of the honest client.
  const auto queued = [slow](const Place& place, int64_t number) {
    return number % 2 == 0 ? slow(number) : New(place.Next() + number % 16);
  };
  return {
      Flood("two solves of 10,000 stages", 2,
            [=](const Place&, int64_t number) { return longest(number); }),
      Flood("64 solves of some seconds", 64,
            [=](const Place&, int64_t number) { return slow(number); }),
      Flood("64 callers of invalid requests", 64, [=](const Place&, int64_t) { return bad(); }),
      Flood("64 callers of known answers", 64, [](const Place&, int64_t) { return New(0); }),
      Flood("the honest client's next requests, queued behind others", 32, queued),
      Flood("forged requests", 8,
            [](const Place&, int64_t) {
              static const v1::SolveRequest forged = ToMessage(ForgedRequest());
              return forged;
            }),
      Flood("8 callers of invalid requests of 10,000 stages", 8,
            [=](const Place&, int64_t number) {
              v1::SolveRequest request = longest(number);
              request.set_solver("rotter");
              return request;
            }),
      {"6,000 callers of one solve of 10,000 empty stages",
       [](const Place& place) {
         v1::SolveRequest request;
         for (int i = 0; i < 10'000; ++i) request.mutable_chain()->add_stages();
         request.mutable_platform()->set_memory_bytes(int64_t{1} << 40);
         for (int64_t number = 0;; ++number) {
           AskTogether(place.address, Changed(request, number).SerializeAsString(), 6000);
         }
       }},
      {"8 threads that connect and disconnect",
       [](const Place& place) {
         InThreads(8, [&] {
           while (true) Connect(place.address);
         });
       }},
  };
}

// In the hostile process: the attack `index`.
[[noreturn]] void RunAttack(size_t index, const Place& place) {
  const sched_param none{};
  if (sched_setscheduler(0, SCHED_IDLE, &none) != 0) std::abort();
  Attacks()[index].run(place);
  std::abort();  // it never ends
}

// The most memory that the server has had resident since the last look.
int64_t MostResidentMebibytes(const ServerProcess& server) {
  const std::string folder = absl::StrCat("/proc/", server.pid());
  const std::string status = ReadFile(folder + "/status");
  const std::string begin = "VmHWM:";
  const int64_t kibibytes = std::stoll(status.substr(status.find(begin) + begin.size()));
  std::ofstream(folder + "/clear_refs") << "5";  // begins anew
  return kibibytes >> 10;
}

void Print(const char* name, const Latencies& latencies, const ServerProcess& server) {
  absl::PrintF("%-58s %8.2f %8.2f %9.1f %9.1f %8d %8d\n", name, Quantile(latencies.known, 0.5),
               Quantile(latencies.known, 0.99), Quantile(latencies.fresh, 0.5),
               Quantile(latencies.fresh, 0.99), latencies.refused, MostResidentMebibytes(server));
}

// Whether an attack is to be measured: all where none is named.
bool IsChosen(const Attack& attack, const std::vector<std::string>& names) {
  return names.empty() || std::any_of(names.begin(), names.end(), [&](const std::string& name) {
           return absl::StrContains(attack.name, name);
         });
}

int Main(int argc, char** argv) {
  double seconds = 60;
  std::vector<std::string> names;
  std::vector<std::string> attack;
  BenchmarkFlags flags("stowage_tenants_benchmark",
                       "Prints what an honest client feels of a hostile one on the same server.");
  flags.AddNumber("--seconds", {1.0, 86400.0}, &seconds, "of each attack");
  flags.AddTexts("--attacks", &names, "only those whose names contain one of these");
  flags.AddInternalTexts("--attack", &attack);
  if (const std::optional<int> code = flags.Parse(argc, argv)) return *code;
  if (attack.size() == 3) {
    RunAttack(std::stoul(attack[0]), Place{.address = attack[1], .first = std::stol(attack[2])});
  }
  const TempFolder folder;
  const ServerProcess server(
      {"--token-file",
       folder.Write("tokens", absl::StrCat("honest ", kHonest, "\nhostile ", kHostile,
                                           "\nunlimited ", kUnlimited, " calls=1000000\n"))});
  absl::PrintF("%-58s %8s %8s %9s %9s %8s %8s\n", "milliseconds", "known", "p99", "new", "p99",
               "refused", "MiB");
  int64_t first = 1;
  Progress("alone");
  Print("alone", Measure(server.address(), seconds, first), server);
  const std::vector<Attack> attacks = Attacks();
  for (size_t i = 0; i < attacks.size(); ++i) {
    if (!IsChosen(attacks[i], names)) continue;
    Progress(attacks[i].name);
    first += 1000;  // more than are asked during an attack
    const BackgroundProgram hostile(
        {"/proc/self/exe", "--attack", absl::StrCat(i), server.address(), absl::StrCat(first)});
    std::this_thread::sleep_for(std::chrono::seconds(1));
    Print(attacks[i].name, Measure(server.address(), seconds, first), server);
  }
  return 0;
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
