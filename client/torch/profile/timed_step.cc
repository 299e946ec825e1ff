#include "client/torch/profile/timed_step.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// Measures the peak of allocated bytes during each computation.
class PeakRecorder final : public FrameworkStages {
 public:
  // Subtracts the bytes that are live now.
  PeakRecorder(TorchStages* stages, MemoryMeter* meter)
      : stages_(*stages), meter_(*meter), live_before_bytes_(meter->LiveBytes()) {}

  // By command; -1 for copies and releases.
  std::vector<int64_t> PeaksOf(const Plan& plan) const {
    std::vector<int64_t> peaks;
    size_t next = 0;
    for (const Command& command : plan.commands) {
      const bool computes =
          command.queue == Queue::kCompute && command.kind != OperationKind::kRelease;
      peaks.push_back(computes ? peaks_[next++] : -1);
    }
    return peaks;
  }

  absl::Status Begin(void* stream) override { return stages_.Begin(stream); }
  absl::Status Forward(const ForwardCall& call) override {
    return RecordPeak([&] { return stages_.Forward(call); });
  }
  absl::Status Backward(const BackwardCall& call) override {
    return RecordPeak([&] { return stages_.Backward(call); });
  }
  absl::Status End(void* stream) override { return stages_.End(stream); }
  absl::Status CopyToHost(int l, PinnedSpan to, void* stream) override {
    return stages_.CopyToHost(l, to, stream);
  }
  absl::Status Release(int l) override { return stages_.Release(l); }
  absl::Status CopyToDevice(int l, PinnedSpan from, void* stream) override {
    return stages_.CopyToDevice(l, from, stream);
  }
  void Abandon() override { stages_.Abandon(); }

 private:
  template <typename Call>
  absl::Status RecordPeak(const Call& call) {
    meter_.ResetPeak();
    absl::Status status = call();
    peaks_.push_back(meter_.PeakBytes() - live_before_bytes_);
    return status;
  }

  TorchStages& stages_;
  MemoryMeter& meter_;
  const int64_t live_before_bytes_;
  std::vector<int64_t> peaks_;  // of computations, in program order
};

}  // namespace

absl::StatusOr<MeasuredStep> TimedStep(const Plan& plan, FrameworkExecutor* executor,
                                       TorchStages* stages, MemoryMeter* meter) {
  PeakRecorder recorder(stages, meter);
  ASSIGN_OR_RETURN(StepReport report, executor->Step(&recorder, Timing::kEveryCommand));
  return MeasuredStep{std::move(report.commands), recorder.PeaksOf(plan)};
}

}  // namespace stowage
