#include "tests/support/kernel_stages.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "solver/base/status_macros.h"

namespace stowage {
namespace {

using cuda_double::AccessKind;
using cuda_double::Range;

absl::Status FromCuda(cudaError_t error) {
  return error == cudaSuccess ? absl::OkStatus() : absl::InternalError(cudaGetErrorString(error));
}

Range Read(DeviceSpan span) {
  return {span.data, static_cast<size_t>(span.bytes), AccessKind::kRead};
}

Range Written(DeviceSpan span) {
  return {span.data, static_cast<size_t>(span.bytes), AccessKind::kWrite};
}

DeviceSpan Seen(DeviceSpan span) { return {cuda_double::View(span.data), span.bytes}; }

absl::Status Launch(void* stream, const std::vector<Range>& ranges, std::function<void()> body) {
  return FromCuda(
      cuda_double::LaunchKernel(static_cast<cudaStream_t>(stream), ranges, std::move(body)));
}

absl::Status Copy(void* to, const void* from, int64_t bytes, void* stream) {
  return FromCuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault,
                                  static_cast<cudaStream_t>(stream)));
}

}  // namespace

absl::Status KernelStages::Begin(DeviceSpan input, void* stream) {
  return Launch(stream, {Written(input)}, [=, this] { (void)stages_.Begin(Seen(input), nullptr); });
}

absl::Status KernelStages::Forward(const ForwardCall& call, const ForwardSpans& spans) {
  return Launch(call.stream, {Read(spans.input), Written(spans.value), Written(spans.workspace)},
                [=, this] {
                  (void)stages_.Forward(call, {.input = Seen(spans.input),
                                               .value = Seen(spans.value),
                                               .workspace = Seen(spans.workspace)});
                });
}

absl::Status KernelStages::Backward(const BackwardCall& call, const BackwardSpans& spans) {
  return Launch(call.stream,
                {Read(spans.input), Read(spans.value), Read(spans.gradient),
                 Written(spans.input_gradient), Written(spans.workspace)},
                [=, this] {
                  (void)stages_.Backward(call, {.input = Seen(spans.input),
                                                .value = Seen(spans.value),
                                                .gradient = Seen(spans.gradient),
                                                .input_gradient = Seen(spans.input_gradient),
                                                .workspace = Seen(spans.workspace)});
                });
}

absl::Status KernelStages::End(DeviceSpan input_gradient, void* stream) {
  return Launch(stream, {Read(input_gradient)},
                [=, this] { (void)stages_.End(Seen(input_gradient), nullptr); });
}

CachingKernelStages::~CachingKernelStages() {
  for (const DeviceSpan block : blocks_) (void)cudaFree(block.data);
}

absl::Status CachingKernelStages::Allocate(DeviceSpan* span, int64_t bytes) {
  *span = {};
  if (bytes == 0) return absl::OkStatus();
  const auto fits = [bytes](const DeviceSpan& block) { return block.bytes >= bytes; };
  const auto found = std::find_if(free_.rbegin(), free_.rend(), fits);
  if (found != free_.rend()) {
    *span = {found->data, bytes};
    free_.erase(std::next(found).base());
    return absl::OkStatus();
  }
  void* data = nullptr;
  RETURN_IF_ERROR(FromCuda(cudaMalloc(&data, static_cast<size_t>(bytes))));
  *span = {static_cast<std::byte*>(data), bytes};
  blocks_.push_back(*span);
  return absl::OkStatus();
}

void CachingKernelStages::Free(DeviceSpan* span) {
  const std::byte* const data = std::exchange(*span, {}).data;
  const auto is_it = [data](const DeviceSpan& block) { return block.data == data; };
  const auto block = std::find_if(blocks_.begin(), blocks_.end(), is_it);
  if (block != blocks_.end()) free_.push_back(*block);
}

DeviceSpan CachingKernelStages::Input(int l) const {
  DeviceSpan input = values_[static_cast<size_t>(l) - 1];
  input.bytes = std::min(input.bytes, chain_.output_bytes(l - 1));
  return input;
}

absl::Status CachingKernelStages::Begin(void* stream) {
  RETURN_IF_ERROR(Allocate(&values_[0], chain_.input_bytes));
  return stages_.Begin(values_[0], stream);
}

absl::Status CachingKernelStages::Forward(const ForwardCall& call) {
  const auto l = static_cast<size_t>(call.stage);
  saved_[l] = call.kind == OperationKind::kForwardSave;
  Free(&values_[l]);
  RETURN_IF_ERROR(Allocate(
      &values_[l], saved_[l] ? chain_.saved_bytes(call.stage) : chain_.output_bytes(call.stage)));
  RETURN_IF_ERROR(
      stages_.Forward(call, {.input = Input(call.stage), .value = values_[l], .workspace = {}}));
  if (call.kind == OperationKind::kForwardDiscard) Free(&values_[l - 1]);
  return absl::OkStatus();
}

absl::Status CachingKernelStages::Backward(const BackwardCall& call) {
  const auto l = static_cast<size_t>(call.stage);
  RETURN_IF_ERROR(Allocate(&gradients_[l - 1], chain_.gradient_bytes(call.stage - 1)));
  RETURN_IF_ERROR(stages_.Backward(call, {.input = Input(call.stage),
                                          .value = values_[l],
                                          .gradient = gradients_[l],
                                          .input_gradient = gradients_[l - 1],
                                          .workspace = {}}));
  Free(&gradients_[l]);
  Free(&values_[l]);
  if (!saved_[l - 1]) Free(&values_[l - 1]);
  return absl::OkStatus();
}

absl::Status CachingKernelStages::End(void* stream) {
  RETURN_IF_ERROR(stages_.End(gradients_[0], stream));
  Free(&gradients_[0]);
  return absl::OkStatus();
}

absl::Status CachingKernelStages::CopyToHost(int l, PinnedSpan to, void* stream) {
  return Copy(to.data, values_[static_cast<size_t>(l)].data, to.bytes, stream);
}

absl::Status CachingKernelStages::Release(int l) {
  Free(&values_[static_cast<size_t>(l)]);
  return absl::OkStatus();
}

absl::Status CachingKernelStages::CopyToDevice(int l, PinnedSpan from, void* stream) {
  DeviceSpan& value = values_[static_cast<size_t>(l)];
  RETURN_IF_ERROR(Allocate(&value, from.bytes));
  return Copy(value.data, from.data, from.bytes, stream);
}

void CachingKernelStages::Abandon() {
  for (DeviceSpan& value : values_) Free(&value);
  for (DeviceSpan& gradient : gradients_) Free(&gradient);
}

}  // namespace stowage
