// Steps of the executor on the host device against the simulator's makespan: real copies at the
// speed of a link, computations that take the time that the profile says.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "absl/strings/str_format.h"
#include "client/agent/executor.h"
#include "client/agent/host_device.h"
#include "solver/bounds/memory_range.h"
#include "solver/solve/answer_request.h"
#include "tests/benchmark/benchmark_flags.h"
#include "tests/support/profiles.h"
#include "tests/support/transfers.h"

namespace stowage {
namespace {

// Sizes and speeds are divided by it: times stay, and copies need not touch gigabytes.
constexpr int64_t kSmaller = 64;

// Takes the time of its chain and computes nothing.
class TimedStages final : public ArenaStages {
 public:
  explicit TimedStages(const Chain& chain) : chain_(chain) {}

  absl::Status Begin(DeviceSpan /*input*/, void* /*stream*/) override { return absl::OkStatus(); }
  absl::Status Forward(const ForwardCall& call, const ForwardSpans& /*spans*/) override {
    return Take(chain_.stage(call.stage).forward_seconds);
  }
  absl::Status Backward(const BackwardCall& call, const BackwardSpans& /*spans*/) override {
    return Take(chain_.stage(call.stage).backward_seconds);
  }
  absl::Status End(DeviceSpan /*input_gradient*/, void* /*stream*/) override {
    return absl::OkStatus();
  }

 private:
  // Whoever sleeps wakes up late: the last part is waited for awake.
  static absl::Status Take(double seconds) {
    constexpr std::chrono::microseconds kLate{500};
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    std::this_thread::sleep_until(end - kLate);
    while (std::chrono::steady_clock::now() < end) {
    }
    return absl::OkStatus();
  }

  const Chain& chain_;
};

Chain Smaller(Chain chain) {
  const auto shrink = [](int64_t& bytes) { bytes /= kSmaller; };
  shrink(chain.input_bytes);
  chain.input_gradient_bytes.reset();
  for (Stage& stage : chain.stages) {
    for (int64_t* bytes : {&stage.output_bytes, &stage.saved_bytes, &stage.forward_overhead_bytes,
                           &stage.backward_overhead_bytes}) {
      shrink(*bytes);
    }
    stage.gradient_bytes.reset();
  }
  return chain;
}

void PrintRow(const std::string& profile, double gigabytes_per_second, double share,
              bool half_duplex) {
  Progress(absl::StrFormat("%s at %g GB/s", profile, gigabytes_per_second));
  const Chain chain = Smaller(LoadProfile(profile));
  Platform platform;
  platform.memory_bytes = StoreAllPeakBytes(chain);
  platform.offload_bytes_per_second = gigabytes_per_second * 1e9 / kSmaller;
  platform.half_duplex = half_duplex;
  const Answer answer = *AnswerRequest({chain, platform, "store_all", {}}, {});
  std::mt19937 random(1);
  const Schedule schedule = WithTransfers(chain, answer.schedule, share, &random);
  const ArenaPlan plan = *MakeArenaPlan(chain, platform, schedule);
  HostDevice device({.offload_bytes_per_second = platform.offload_bytes_per_second,
                     .prefetch_bytes_per_second = platform.prefetch_rate(),
                     .latency_seconds = 0});
  const auto executor = *ArenaExecutor::Create(&plan, &device);
  TimedStages stages(chain);
  double best = 1e9;
  for (int i = 0; i < 3; ++i) best = std::min(best, executor->Step(&stages)->seconds);
  const Prediction& prediction = plan.prediction;
  absl::PrintF("%-32s %6.1f %8s %7.0f %% %10.4f %10.4f %10.4f %+9.2f %%\n", profile,
               gigabytes_per_second, half_duplex ? "half" : "full", 100 * share,
               prediction.compute_seconds, prediction.makespan_seconds, best,
               100 * (best / prediction.makespan_seconds - 1));
}

int Main(int argc, char** argv) {
  BenchmarkFlags flags("stowage_agent_benchmark",
                       "Prints steps of the executor on the host device beside the simulator's.");
  if (const std::optional<int> code = flags.Parse(argc, argv)) return *code;
  absl::PrintF(
      "Steps of the executor on the host device, best of 3, against the simulated makespan: "
      "values\n"
      "of a schedule that stores everything, a share of them sent to the host and back at random.\n"
      "\n%-32s %6s %8s %9s %10s %10s %10s %11s\n",
      "profile", "GB/s", "duplex", "offloaded", "compute s", "simulated", "measured", "difference");
  for (const char* profile : {"torchvision-resnet50-32-224", "pipedream-vgg16-128-224"}) {
    PrintRow(profile, 500, 0.3, false);  // compute-bound
    PrintRow(profile, 50, 0.3, false);
    PrintRow(profile, 12, 0.3, true);
    PrintRow(profile, 4, 0.9, false);  // transfer-bound
  }
  return 0;
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
