#include "solver/bounds/chain_cuts.h"

#include <algorithm>

namespace stowage {

ChainCuts::ChainCuts(const Chain& chain, const Platform& platform)
    : chain_(chain), platform_(platform), values_(chain.stages.size() + 1) {
  forwards_.resize(values_.size() + 1);
  backwards_.resize(values_.size() + 1);
  stay_bytes_.resize(values_.size() + 1);
  for (int l = 1; l <= loss(); ++l) {
    forwards_[l] = forwards_[l - 1] + chain.stage(l).forward_seconds;
    backwards_[l] = backwards_[l - 1] + chain.stage(l).backward_seconds;
    ValueAtCut& read = values_[l - 1];
    read.bytes = l == 1 ? chain.input_bytes : chain.saved_bytes(l - 1);
    read.ready_seconds = forwards_[l - 1];
    read.rest_seconds = backwards_[l];
    stay_bytes_[l] = stay_bytes_[l - 1] + read.bytes;
    if (l == 1 || read.bytes == 0 || chain.stage(l - 1).no_recompute) continue;
    read.fates |= kRunsAgain;
    read.rerun_seconds = chain.stage(l - 1).forward_seconds;
    read.rerun_seconds_a_byte = read.rerun_seconds / static_cast<double>(read.bytes);
    cheapest_first_.push_back(l - 1);
  }
  std::stable_sort(cheapest_first_.begin(), cheapest_first_.end(), [this](int a, int b) {
    return values_[a].rerun_seconds_a_byte < values_[b].rerun_seconds_a_byte;
  });
  if (platform.has_link()) AddLink();
}

void ChainCuts::AddLink() {
  const double latency = platform_.transfer_latency_seconds;
  int64_t largest = 1;
  for (int k = 0; k < loss(); ++k) {
    ValueAtCut& value = values_[k];
    if (value.bytes == 0 || (k > 0 && chain_.stage(k).no_offload)) continue;
    value.fates |= kLeaves;
    const auto bytes = static_cast<double>(value.bytes);
    value.offload_seconds = latency + bytes / platform_.offload_bytes_per_second;
    value.prefetch_seconds = latency + bytes / platform_.prefetch_rate();
    largest = std::max(largest, value.bytes);
  }
  const double latency_a_byte = latency / static_cast<double>(largest);
  offload_seconds_a_byte_ = latency_a_byte + 1 / platform_.offload_bytes_per_second;
  prefetch_seconds_a_byte_ = latency_a_byte + 1 / platform_.prefetch_rate();
  host_bytes_ = platform_.host_memory_bytes > 0 ? platform_.host_memory_bytes : kMaxTotalBytes;
}

Cut ChainCuts::FirstForward(int l) const {
  const Stage& stage = chain_.stage(l);
  const bool saves = l == loss() || stage.no_recompute;
  const int64_t added = saves ? stage.saved_bytes : stage.output_bytes;
  return {.stage = l,
          .excess_bytes =
              stay_bytes_[l] + added + stage.forward_overhead_bytes - platform_.memory_bytes,
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
  if (host_bytes_ == 0) needed = std::max(needed, stage.forward_overhead_bytes);
  return {.stage = l,
          .excess_bytes = stay_bytes_[l] + stage.saved_bytes + needed - platform_.memory_bytes,
          .before_seconds = forwards_.back() + backwards_.back() - backwards_[l],
          .operation_seconds = stage.backward_seconds,
          .after_seconds = backwards_[l - 1]};
}

ValueAtCut ChainCuts::ReadByCut(int l) const {
  ValueAtCut value = values_[l];
  value.fates &= kRunsAgainOrStays;
  value.bytes = value.fates == kStays ? 0 : value.bytes - chain_.output_bytes(l);
  if (value.bytes == 0) value.fates = kStays;
  value.rerun_seconds_a_byte =
      value.fates == kStays ? 0 : value.rerun_seconds / static_cast<double>(value.bytes);
  return value;
}

}  // namespace stowage
