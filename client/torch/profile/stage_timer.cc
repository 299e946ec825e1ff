#include "client/torch/profile/stage_timer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "client/torch/base/stream_guard.h"
#include "client/torch/base/torch_guarded.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

Tensors OnesLike(const StageOutput& output) {
  Tensors ones(output.tensors.size());
  for (size_t i = 0; i < ones.size(); ++i) {
    if (output.differentiable[i]) ones[i] = at::ones_like(output.tensors[i]);
  }
  return ones;
}

}  // namespace

absl::Status StageTimer::Begin() {
  RETURN_IF_ERROR(
      device_.Launch(Queue::kCompute, [this](void* stream) { return stages_.Begin(stream); }));
  return device_.Synchronize();
}

absl::Status StageTimer::Forward(const ForwardCall& call) {
  return Time(
      [this, on_stream = call](void* stream) mutable {
        on_stream.stream = stream;
        return stages_.Forward(on_stream);
      },
      &last_forward_);
}

absl::Status StageTimer::Backward(int l) {
  // The loss has a gradient of its own.
  if (l <= stages_.length()) probe_.SetGradients(l, OnesLike(probe_.Output(l)));
  return Time([this, l](void* stream) { return stages_.Backward({.stage = l, .stream = stream}); },
              &last_backward_);
}

absl::Status StageTimer::Time(DeviceWork work, OperationTimes* last) {
  before_bytes_ = meter_.LiveBytes();
  meter_.ResetPeak();
  constexpr double kMaxLeadSeconds = 0.02;  // a first run sets up libraries for longer
  const double lead = std::min(1.5 * last->host_seconds, kMaxLeadSeconds);
  RETURN_IF_ERROR(device_.Launch(Queue::kCompute, [this, lead](void* stream) {
    return TorchGuarded([&] {
      KeepBusy(stages_.options().device, stream, lead);
      return absl::OkStatus();
    });
  }));
  ASSIGN_OR_RETURN(const auto begin, device_.Record(Queue::kCompute));
  const auto enqueued = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(device_.Launch(Queue::kCompute, std::move(work)));
  ASSIGN_OR_RETURN(const auto end, device_.Record(Queue::kCompute));
  last->host_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - enqueued).count();
  RETURN_IF_ERROR(device_.Synchronize());
  last->device_seconds = end->Seconds() - begin->Seconds();
  return absl::OkStatus();
}

}  // namespace stowage
