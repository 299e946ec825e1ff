#include "solver/bounds/chain_cuts.h"

#include <algorithm>

namespace stowage {
namespace {

void LetRunAgain(double seconds, ValueAtCut* value) {
  if (value->bytes == 0) return;
  value->fates |= kRunsAgain;
  value->rerun_seconds = seconds;
  value->rerun_seconds_a_byte = seconds / static_cast<double>(value->bytes);
}

}  // namespace

ChainCuts::ChainCuts(const Chain& chain, const Platform& platform)
    : chain_(chain), platform_(platform) {
  const size_t size = static_cast<size_t>(loss()) + 1;
  forwards_.resize(size);
  backwards_.resize(size);
  stay_bytes_.resize(size);
  for (int l = 1; l <= loss(); ++l) {
    forwards_[l] = forwards_[l - 1] + chain.stage(l).forward_seconds;
    backwards_[l] = backwards_[l - 1] + chain.stage(l).backward_seconds;
    stay_bytes_[l] = stay_bytes_[l - 1] + BytesOf(l - 1);
  }
  if (platform.has_link()) {
    host_bytes_ = platform.host_memory_bytes > 0 ? platform.host_memory_bytes : kMaxTotalBytes;
  }
  min_latency_seconds_ = platform.transfer_latency_seconds;
  for (int k = 0; k < loss(); ++k) AddValue(k);
  for (size_t i = 0; i < values_.size(); ++i) {
    if ((values_[i].fates & kRunsAgain) != 0) cheapest_first_.push_back(static_cast<int>(i));
  }
  std::stable_sort(cheapest_first_.begin(), cheapest_first_.end(), [this](int a, int b) {
    return values_[a].rerun_seconds_a_byte < values_[b].rerun_seconds_a_byte;
  });
  if (!platform.has_link()) return;
  const double latency_a_byte = min_latency_seconds_ / static_cast<double>(largest_bytes_);
  offload_seconds_a_byte_ = latency_a_byte + 1 / platform.offload_bytes_per_second;
  prefetch_seconds_a_byte_ = latency_a_byte + 1 / platform.prefetch_rate();
}

int64_t ChainCuts::BytesOf(int k) const {
  return k == 0 ? chain_.input_bytes : chain_.saved_bytes(k);
}

// Adds value k, in two parts where stage k + 1 runs only once.
void ChainCuts::AddValue(int k) {
  first_value_.push_back(static_cast<int>(values_.size()));
  const int64_t bytes = BytesOf(k);
  const bool may_run_again = k > 0 && !chain_.stage(k).no_recompute;
  const bool held = may_run_again && chain_.stage(k + 1).no_recompute;
  const int64_t held_bytes = held ? chain_.output_bytes(k) : 0;
  ValueAtCut value{.bytes = bytes - held_bytes,
                   .ready_seconds = forwards_[k],
                   .rest_seconds = backwards_[k + 1]};
  if (may_run_again) LetRunAgain(chain_.stage(k).ReplaySeconds(), &value);
  const bool may_leave = host_bytes_ > 0 && (k == 0 || !chain_.stage(k).no_offload);
  const double latency = platform_.transfer_latency_seconds;
  if (may_leave) LetLeave(held_bytes > 0 ? 0 : latency, &value);
  values_.push_back(value);
  if (held_bytes == 0) return;
  ValueAtCut output{.bytes = held_bytes,
                    .ready_seconds = value.ready_seconds,
                    .rest_seconds = value.rest_seconds};
  if (may_leave) LetLeave(latency, &output);
  values_.push_back(output);
}

void ChainCuts::LetLeave(double latency_seconds, ValueAtCut* value) {
  if (value->bytes == 0) return;
  value->fates |= kLeaves;
  const auto bytes = static_cast<double>(value->bytes);
  value->offload_seconds = latency_seconds + bytes / platform_.offload_bytes_per_second;
  value->prefetch_seconds = latency_seconds + bytes / platform_.prefetch_rate();
  largest_bytes_ = std::max(largest_bytes_, value->bytes);
  min_latency_seconds_ = std::min(min_latency_seconds_, latency_seconds);
}

Cut ChainCuts::FirstForward(int l) const {
  const Stage& stage = chain_.stage(l);
  const bool saves = l == loss() || stage.no_recompute;
  const int64_t needed = saves ? stage.SaveNeedBytes(0) : stage.OutputNeedBytes();
  return {.stage = l,
          .values = first_value_[l - 1],
          .excess_bytes = stay_bytes_[l] + needed - platform_.memory_bytes,
          .before_seconds = forwards_[l - 1],
          .operation_seconds = stage.forward_seconds,
          .after_seconds = forwards_.back() - forwards_[l] + backwards_.back()};
}

Cut ChainCuts::Backward(int l) const {
  const Stage& stage = chain_.stage(l);
  int64_t needed =
      chain_.gradient_bytes(l) + chain_.gradient_bytes(l - 1) + stage.backward_overhead_bytes;
  // Without a link only recomputation counts, and the last FORWARD_SAVE l is a valid cut as well:
  // its time does not matter, since everything that runs again does so after it.
  if (host_bytes_ == 0) needed = std::max(needed, stage.SaveOverheadBytes(0));
  return {.stage = l,
          .values = first_value_[l - 1],
          .excess_bytes = stay_bytes_[l] + stage.saved_bytes + needed - platform_.memory_bytes,
          .before_seconds = forwards_.back() + backwards_.back() - backwards_[l],
          .operation_seconds = stage.backward_seconds,
          .after_seconds = backwards_[l - 1]};
}

ValueAtCut ChainCuts::ReadByCut(int l) const {
  const bool may_run_again = l > 0 && !chain_.stage(l).no_recompute;
  ValueAtCut value{.bytes = may_run_again ? BytesOf(l) - chain_.output_bytes(l) : 0,
                   .ready_seconds = forwards_[l],
                   .rest_seconds = backwards_[l + 1]};
  if (may_run_again) LetRunAgain(chain_.stage(l).ReplaySeconds(), &value);
  return value;
}

}  // namespace stowage
