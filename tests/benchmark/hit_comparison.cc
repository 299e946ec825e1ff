#include "tests/benchmark/hit_comparison.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kTurns = 15;
constexpr const char* kEcho = "/Echo/Echo";
constexpr const char* kSolve = "/stowage.v1.Scheduler/Solve";

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

// Answers every call with the same bytes.
class EchoService final : public grpc::CallbackGenericService {
 public:
  explicit EchoService(size_t bytes) : answer_(BufferOf(std::string(bytes, 'x'))) {}

 private:
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Reactor(const grpc::ByteBuffer& answer) : answer_(answer) { StartRead(&request_); }

   private:
    void OnReadDone(bool ok) override {
      ok ? StartWriteAndFinish(&answer_, grpc::WriteOptions(), grpc::Status::OK)
         : Finish(grpc::Status::OK);
    }
    void OnDone() override { delete this; }
    grpc::ByteBuffer request_;
    grpc::ByteBuffer answer_;
  };
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Reactor(answer_);
  }

  const grpc::ByteBuffer answer_;
};

// Sends the same bytes over and over, without looking at the answers.
class Sender {
 public:
  Sender(const std::string& address, const std::string& method, const std::string& request,
         const Load& load)
      : method_(method), request_(BufferOf(request)), callers_(load.callers) {
    grpc::ChannelArguments own_connection;
    own_connection.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    for (int i = 0; i < load.connections; ++i) {
      stubs_.push_back(std::make_unique<grpc::GenericStub>(
          grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), own_connection)));
    }
  }

  // The size of one answer.
  size_t Once() {
    std::promise<void> done;
    Call call;
    stubs_[0]->UnaryCall(&call.context, method_, {}, &request_, &call.answer,
                         [&done](const grpc::Status& status) {
                           if (!status.ok()) Give(status.error_message());
                           done.set_value();
                         });
    done.get_future().wait();
    return call.answer.Length();
  }

  Throughput Run(double seconds) {
    latencies_.clear();
    const Clock::time_point begin = Clock::now();
    end_ =
        begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    in_flight_ = callers_;
    for (int i = 0; i < callers_; ++i) Send(*stubs_[static_cast<size_t>(i) % stubs_.size()]);
    all_ended_.get_future().wait();
    const double took = std::chrono::duration<double>(Clock::now() - begin).count();
    all_ended_ = {};
    std::sort(latencies_.begin(), latencies_.end());
    const auto count = latencies_.size();
    return {static_cast<double>(count) / took, latencies_[count * 99 / 100]};
  }

 private:
  struct Call {
    grpc::ClientContext context;
    grpc::ByteBuffer answer;
    Clock::time_point sent = Clock::now();
  };

  [[noreturn]] static void Give(const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::exit(1);
  }

  void Send(grpc::GenericStub& stub) {
    auto* const call = new Call;
    stub.UnaryCall(&call->context, method_, {}, &request_, &call->answer,
                   [this, call, &stub](const grpc::Status& status) {
                     if (!status.ok()) Give(status.error_message());
                     const double latency =
                         std::chrono::duration<double>(Clock::now() - call->sent).count();
                     delete call;
                     {
                       const std::lock_guard lock(mutex_);
                       latencies_.push_back(latency);
                     }
                     if (Clock::now() < end_) return Send(stub);
                     if (--in_flight_ == 0) all_ended_.set_value();
                   });
  }

  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  const std::string method_;
  const grpc::ByteBuffer request_;
  const int callers_;
  Clock::time_point end_;
  std::atomic<int> in_flight_{0};
  std::promise<void> all_ended_;
  std::mutex mutex_;
  std::vector<double> latencies_;
};

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Throughput MedianOf(const std::vector<Throughput>& turns) {
  std::vector<double> rates;
  std::vector<double> latencies;
  for (const Throughput& turn : turns) {
    rates.push_back(turn.per_second);
    latencies.push_back(turn.p99_seconds);
  }
  return {Median(std::move(rates)), Median(std::move(latencies))};
}

}  // namespace

int ServeEcho(size_t bytes) {
  EchoService service(bytes);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  std::fprintf(stderr, "event=serving address=127.0.0.1:%d \n", port);
  server->Wait();
  return 0;
}

HitComparison CompareWithEcho(const char* program, const std::string& request, const Load& load,
                              double seconds) {
  ServerProcess server({"--client-rate", "0"});
  Sender hits(server.address(), kSolve, request, load);
  hits.Once();                       // solves it
  hits.Once();                       // caches the response
  const size_t bytes = hits.Once();  // is sent the cached one
  BackgroundProgram echo({program, "--echo", absl::StrCat(bytes)});
  const std::string line = echo.WaitForLogLine({"event=serving"});
  Sender echoes(ValueOf(line, "address="), kEcho, request, load);
  const double turn_seconds = seconds / kTurns;
  std::vector<Throughput> hit_turns;
  std::vector<Throughput> echo_turns;
  std::vector<double> ratios;
  hits.Run(turn_seconds);  // connects
  echoes.Run(turn_seconds);
  for (int turn = 0; turn < kTurns; ++turn) {
    hit_turns.push_back(hits.Run(turn_seconds));
    echo_turns.push_back(echoes.Run(turn_seconds));
    ratios.push_back(hit_turns.back().per_second / echo_turns.back().per_second);
  }
  return {.hits = MedianOf(hit_turns),
          .echoes = MedianOf(echo_turns),
          .ratio = Median(std::move(ratios)),
          .response_bytes = bytes};
}

}  // namespace stowage
