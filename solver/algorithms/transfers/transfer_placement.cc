#include "solver/algorithms/transfers/transfer_placement.h"

#include <algorithm>
#include <cstddef>

namespace stowage {
namespace {

constexpr int kEventKinds = 4;  // at one position, see Event

// The operation after which the copy of a gap's value may start: the one that produces the value,
// or, if the value is on the host in an earlier gap, its first use after the last such gap.
template <typename IsAway>
int LeavesFrom(const ComputeSequence& sequence, const Gap& gap, const IsAway& is_away) {
  int before = gap.previous;
  while (before >= 0 && !is_away(before)) {
    before = sequence.gaps[static_cast<size_t>(before)].previous;
  }
  return before >= 0 ? sequence.gaps[static_cast<size_t>(before)].before : gap.made;
}

}  // namespace

TransferPlacement::TransferPlacement(const Chain& chain, const Platform& platform)
    : chain_(chain), platform_(platform) {}

std::optional<double> TransferPlacement::Place(const ComputeSequence& sequence,
                                               std::span<const GapChoice> choices,
                                               int64_t memory_bytes) {
  memory_bytes_ = memory_bytes;
  shortage_ = {};
  Start(sequence, choices);
  // Rules 1 to 4 of the header; the order matters, since each step uses the result of the previous
  // one.
  if (!PlaceReleases(sequence, choices)) return std::nullopt;
  PlaceOffloads(sequence, choices);
  PlacePrefetches(sequence, choices);
  if (platform_.host_memory_bytes > 0 && !FitHost(sequence)) return std::nullopt;
  ListEvents(sequence);
  return Time(sequence);
}

void TransferPlacement::Start(const ComputeSequence& sequence, std::span<const GapChoice> choices) {
  moves_.assign(sequence.gaps.size(), Move{});
  copies_.clear();
  for (size_t g = 0; g < choices.size(); ++g) {
    if (!choices[g].moved) continue;
    const Gap& gap = sequence.gaps[g];
    const int from = LeavesFrom(
        sequence, gap, [&](int before) { return choices[static_cast<size_t>(before)].moved; });
    copies_.push_back({from + choices[g].offload_delay, gap.value, static_cast<int>(g)});
  }
  std::sort(copies_.begin(), copies_.end());
  copy_order_.clear();
  for (const Copy& copy : copies_) copy_order_.push_back(copy.gap);
  free_.resize(sequence.need_bytes.size());
  for (size_t k = 0; k < free_.size(); ++k) free_[k] = memory_bytes_ - sequence.need_bytes[k];
}

// Releases the value of gap `g` at `position`. Until PlacePrefetches() it is assumed to return
// right before its next use.
void TransferPlacement::Release(const ComputeSequence& sequence, int g, int position) {
  const Gap& gap = sequence.gaps[static_cast<size_t>(g)];
  change_[static_cast<size_t>(position)] += gap.bytes;
  change_[static_cast<size_t>(gap.before)] -= gap.bytes;
  moves_[static_cast<size_t>(g)] = {-1, position, gap.before};
  used_.push_back(g);
}

// Runs after all releases are placed, because a copy starts only after the value has returned from
// its previous gap.
void TransferPlacement::PlaceOffloads(const ComputeSequence& sequence,
                                      std::span<const GapChoice> choices) {
  for (const int g : used_) {
    const Gap& gap = sequence.gaps[static_cast<size_t>(g)];
    Move& move = moves_[static_cast<size_t>(g)];
    const int from = LeavesFrom(sequence, gap, [this](int before) { return moves(before); });
    const int earliest = from == gap.made ? from + 1 : from;
    const int delayed = from + 1 + choices[static_cast<size_t>(g)].offload_delay;
    move.offload = std::min(std::max(earliest, delayed), move.release);
  }
}

// Rule 1. Scans the operations in order; `away` is what releases have freed so far. Returns false
// if an operation does not fit even with every possible release.
bool TransferPlacement::PlaceReleases(const ComputeSequence& sequence,
                                      std::span<const GapChoice> choices) {
  used_.clear();
  waiting_.clear();
  change_.assign(sequence.need_bytes.size() + 1, 0);
  for (const int g : copy_order_) {
    if (choices[static_cast<size_t>(g)].early_release) {
      Release(sequence, g, sequence.gaps[static_cast<size_t>(g)].after + 1);
    } else {
      waiting_.push_back(g);
    }
  }
  int64_t away = 0;
  for (int k = 0; k < sequence.size(); ++k) {
    away += change_[static_cast<size_t>(k)];
    int64_t& free = free_[static_cast<size_t>(k)];
    free += away;
    if (free >= 0) continue;
    // Release waiting gaps in copy order until the operation fits. Entries that stay in waiting_
    // are moved to its front.
    size_t kept = 0;
    size_t next = 0;
    for (; free < 0 && next < waiting_.size(); ++next) {
      const int g = waiting_[next];
      const Gap& gap = sequence.gaps[static_cast<size_t>(g)];
      if (gap.before <= k) continue;  // the gap is over; it was not needed
      if (gap.after < k) {
        Release(sequence, g, k);
        away += gap.bytes;
        free += gap.bytes;
      } else {
        waiting_[kept++] = g;
      }
    }
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(kept),
                   waiting_.begin() + static_cast<std::ptrdiff_t>(next));
    if (free < 0) {
      shortage_ = {k, -free};
      return false;
    }
  }
  return true;
}

// Rule 3. Moves each PREFETCH to earlier positions as long as the operations there leave enough
// memory. The queue is in order, so no PREFETCH may precede that of an earlier use.
void TransferPlacement::PlacePrefetches(const ComputeSequence& sequence,
                                        std::span<const GapChoice> choices) {
  std::sort(used_.begin(), used_.end());  // gaps are numbered by next use
  by_release_ = used_;
  std::sort(by_release_.begin(), by_release_.end(), [this](int a, int b) {
    return moves_[static_cast<size_t>(a)].release < moves_[static_cast<size_t>(b)].release;
  });
  auto released = by_release_.begin();
  int earliest = 0;  // the position of the previous PREFETCH, or later
  walked_ = 0;
  for (const int g : used_) {
    const Gap& gap = sequence.gaps[static_cast<size_t>(g)];
    Move& move = moves_[static_cast<size_t>(g)];
    // On a shared link a PREFETCH must not delay an OFFLOAD that compute waits for before this use.
    for (; platform_.half_duplex && released != by_release_.end(); ++released) {
      const Move& other = moves_[static_cast<size_t>(*released)];
      if (other.release > gap.before) break;
      earliest = std::max(earliest, other.offload);
    }
    const int first = std::max(earliest, move.release);
    int position = gap.before;
    while (position > first && free_[static_cast<size_t>(position) - 1] >= gap.bytes) --position;
    position = std::min(gap.before, position + choices[static_cast<size_t>(g)].prefetch_delay);
    // The value now occupies memory from the PREFETCH on.
    for (int k = position; k < gap.before; ++k) free_[static_cast<size_t>(k)] -= gap.bytes;
    walked_ += gap.before - position;
    move.prefetch = position;
    earliest = std::max(earliest, position);
  }
}

// Rule 4. First counts the copies from RELEASE to PREFETCH, which is the minimum. Then moves each
// OFFLOAD from its RELEASE back toward its desired position while the host has room. Returns false
// if the minimum does not fit.
bool TransferPlacement::FitHost(const ComputeSequence& sequence) {
  host_.assign(static_cast<size_t>(sequence.size()) + 1, platform_.host_memory_bytes);
  for (const int g : used_) {
    const Move& move = moves_[static_cast<size_t>(g)];
    for (int k = move.release; k <= move.prefetch; ++k) {
      host_[static_cast<size_t>(k)] -= sequence.gaps[static_cast<size_t>(g)].bytes;
      if (host_[static_cast<size_t>(k)] < 0) return false;
    }
  }
  for (const int g : copy_order_) {
    Move& move = moves_[static_cast<size_t>(g)];
    if (move.release < 0) continue;
    const int64_t bytes = sequence.gaps[static_cast<size_t>(g)].bytes;
    int position = move.release;
    while (position > move.offload && host_[static_cast<size_t>(position) - 1] >= bytes) {
      host_[static_cast<size_t>(--position)] -= bytes;
    }
    move.offload = position;
  }
  return true;
}

// Whether an OFFLOAD stands where the PREFETCH of the same value does, which it has to follow.
bool TransferPlacement::FollowsPrefetch(const ComputeSequence& sequence, int g) const {
  int before = sequence.gaps[static_cast<size_t>(g)].previous;
  while (before >= 0 && !moves(before)) {
    before = sequence.gaps[static_cast<size_t>(before)].previous;
  }
  return before >= 0 &&
         moves_[static_cast<size_t>(before)].prefetch == moves_[static_cast<size_t>(g)].offload;
}

// Sorts the transfers by position, then OFFLOAD, RELEASE, PREFETCH. OFFLOADs and RELEASEs at one
// position are in copy order, PREFETCHes in order of next use.
void TransferPlacement::ListEvents(const ComputeSequence& sequence) {
  events_.clear();
  const auto add = [this](int position, int kind, OperationKind operation, size_t rank, int gap) {
    const int64_t key =
        ((static_cast<int64_t>(position) * kEventKinds + kind) << 32) + static_cast<int64_t>(rank);
    events_.push_back({key, operation, gap});
  };
  for (size_t rank = 0; rank < copy_order_.size(); ++rank) {
    const int g = copy_order_[rank];
    const Move& move = moves_[static_cast<size_t>(g)];
    if (move.release < 0) continue;
    add(move.offload, FollowsPrefetch(sequence, g) ? 3 : 0, OperationKind::kOffload, rank, g);
    add(move.release, 1, OperationKind::kRelease, rank, g);
    add(move.prefetch, 2, OperationKind::kPrefetch, static_cast<size_t>(g), g);
  }
  std::sort(events_.begin(), events_.end(),
            [](const Event& a, const Event& b) { return a.key < b.key; });
}

// The rules of simulator/queues.cc, with the same order of additions but without the causes of
// waits. compute, released, to_host and to_device are the queues' ends.
double TransferPlacement::Time(const ComputeSequence& sequence) {
  offloaded_.assign(sequence.gaps.size(), 0);
  prefetched_.assign(static_cast<size_t>(chain_.length()) + 2, 0);
  save_options_.assign(prefetched_.size(), 0);
  double compute = 0;
  double released = 0;
  double to_host = 0;
  double to_device = 0;
  double& back = platform_.half_duplex ? to_host : to_device;
  const double latency = platform_.transfer_latency_seconds;
  auto event = events_.begin();
  for (int k = 0; k <= sequence.size(); ++k) {
    for (; event != events_.end() && event->key >> 32 < (int64_t{k} + 1) * kEventKinds; ++event) {
      const Gap& gap = sequence.gaps[static_cast<size_t>(event->gap)];
      const auto bytes = static_cast<double>(gap.bytes);
      double& away = offloaded_[static_cast<size_t>(event->gap)];
      if (event->kind == OperationKind::kOffload) {
        const double start =
            std::max({to_host, compute, prefetched_[static_cast<size_t>(gap.value)]});
        to_host = start + (latency + bytes / platform_.offload_bytes_per_second);
        away = to_host;
      } else if (event->kind == OperationKind::kRelease) {
        released = std::max({released, compute, away});
      } else {
        const double start = std::max({back, compute, released});
        back = start + (latency + bytes / platform_.prefetch_rate());
        prefetched_[static_cast<size_t>(gap.value)] = back;
      }
    }
    if (k == sequence.size()) break;
    const Operation& operation = sequence.operations[static_cast<size_t>(k)];
    const auto l = static_cast<size_t>(operation.stage);
    const Stage& stage = chain_.stage(operation.stage);
    double start = std::max({compute, released, prefetched_[l - 1]});
    if (operation.kind == OperationKind::kBackward) {
      start = std::max(start, prefetched_[l]);
      compute = start + stage.BackwardSeconds(save_options_[l]);
    } else {
      const bool replays =
          stage.replay_seconds.has_value() && IsReplay(sequence.operations, static_cast<size_t>(k));
      compute = start + (replays ? stage.ReplaySeconds() : stage.forward_seconds);
      prefetched_[l] = 0;
      save_options_[l] = operation.save_option;
    }
  }
  // Compute ends last: it waits for every OFFLOAD at its RELEASE and for every PREFETCH at the next
  // use.
  return compute;
}

Schedule TransferPlacement::ToSchedule(const ComputeSequence& sequence) const {
  Schedule schedule;
  schedule.operations.reserve(sequence.operations.size() + events_.size());
  auto event = events_.begin();
  for (int k = 0; k < sequence.size(); ++k) {
    for (; event != events_.end() && event->key >> 32 < (int64_t{k} + 1) * kEventKinds; ++event) {
      schedule.operations.push_back(
          {event->kind, sequence.gaps[static_cast<size_t>(event->gap)].value});
    }
    schedule.operations.push_back(sequence.operations[static_cast<size_t>(k)]);
  }
  return schedule;
}

int64_t TransferPlacement::PeakBytes() const {
  return memory_bytes_ - *std::min_element(free_.begin(), free_.end());
}

}  // namespace stowage
