// PricedRecurrence::Slopes(): follows what its table chose, at one level.
#include <algorithm>

#include "solver/base/checked_math.h"
#include "solver/bounds/priced_recurrence.h"

namespace stowage {

LinkPrices PricedRecurrence::Slopes() const {
  LinkPrices slopes(rows_ - 1);
  TracePart(kCheckpoint, 1, rows_, levels_ - 1, &slopes);
  for (int l = 1; l <= rows_; ++l) {
    slopes.forward[l] -= chain_.stage(l).forward_seconds;
    slopes.backward[l] -= chain_.stage(l).backward_seconds;
  }
  slopes.held -= static_cast<double>(platform_.memory_bytes - need_bytes_[rows_]) /
                 platform_.offload_bytes_per_second;
  return slopes;
}

// Finds the cheapest of the ways that FillPart() compares, and follows it.
void PricedRecurrence::TracePart(Root root, int s, int t, size_t m, LinkPrices* slopes) const {
  const Value& value = ValueOf(root, s);
  const int last = std::min(t, rows_);
  if (s == last) return TraceHeld(t, value.bytes, slopes);
  struct Way {
    double seconds = kInfiniteSeconds;
    int split = 0;               // 0: stage s is saved
    const Held* held = nullptr;  // null: the value leaves
  } best;
  const auto consider = [&best](const Way& way) {
    if (way.seconds < best.seconds) best = way;
  };
  const double saving = chain_.stage(s).forward_seconds;
  const size_t size = LevelsOf(value.bytes);
  const Held* const itself = &value.held.front();
  if (m >= std::max(size, RowLevels(root, s))) {
    consider(
        {PriceHeld(t, value.bytes) + RestSeconds(kSaved, s + 1, t, saving, m - size), 0, itself});
  }
  if (value.may_leave && m >= RowLevels(root, s)) {
    consider({RestSeconds(kSaved, s + 1, t, saving, m) +
              TripSeconds({value.away.front()}, OwnTrip(s, t), m)});
  }
  for (int k = s; k < last && reruns_[k]; ++k) {
    const double rerun_price = 1 - prices_.gap[k];
    const double base = rerun_price * (SweepSeconds(s, k) - replay_gains_[k]);
    for (const Held& held : value.held) {
      const size_t smaller = LevelsOf(held.bytes);
      if (m < smaller) continue;
      consider({base + rerun_price * held.rerun_seconds + PriceHeld(t, held.bytes) +
                    RestSeconds(kCheckpoint, k + 1, t, SweepSeconds(s, k), m - smaller) +
                    Lost(root, s, k)[m],
                k, &held});
    }
    if (value.away.empty()) continue;
    consider({base + RestSeconds(kCheckpoint, k + 1, t, SweepSeconds(s, k), m) +
                  Returned(root, s, k, t)[m],
              k});
  }
  const size_t left = best.held == nullptr ? m : m - LevelsOf(best.held->bytes);
  if (best.held != nullptr) TraceHeld(t, best.held->bytes, slopes);
  const int k = best.split;
  if (k == 0) {
    if (best.held == nullptr) TraceTrip({value.away.front()}, OwnTrip(s, t), m, slopes);
    return TraceRest(kSaved, s + 1, t, saving, left, slopes);
  }
  slopes->gap[k] -= SweepSeconds(s, k) - replay_gains_[k];
  if (best.held != nullptr) {
    slopes->gap[k] -= best.held->rerun_seconds;
  } else {
    TraceTrip(value.away, ReturnTrip(s, k, t == rows_ ? rows_ : rows_ - 1), m, slopes);
  }
  TraceRest(kCheckpoint, k + 1, t, SweepSeconds(s, k), left, slopes);
  TracePart(root, s, k, m, slopes);
}

// An entry of Rest().
double PricedRecurrence::RestSeconds(Root root, int s, int t, double late_seconds, size_t m) const {
  const double now = Lost(root, s, std::min(t, rows_))[m];
  if (t < rows_ || PriceHeld(rows_, 1) == 0) return now;
  return std::min(now, Lost(root, s, Late())[m] + (1 - prices_.gap[GapOfLate(s)]) * late_seconds);
}

void PricedRecurrence::TraceRest(Root root, int s, int t, double late_seconds, size_t m,
                                 LinkPrices* slopes) const {
  const int last = std::min(t, rows_);
  if (RestSeconds(root, s, t, late_seconds, m) == Lost(root, s, last)[m]) {
    return TracePart(root, s, last, m, slopes);
  }
  slopes->gap[GapOfLate(s)] -= late_seconds;
  TracePart(root, s, Late(), m, slopes);
}

void PricedRecurrence::TraceHeld(int t, int64_t bytes, LinkPrices* slopes) const {
  if (t != rows_) return;
  slopes->held += static_cast<double>(bytes) / platform_.offload_bytes_per_second;
}

// The cheapest trip at a level.
PricedRecurrence::FoundTrip PricedRecurrence::FindTrip(const std::vector<Away>& choices,
                                                       const Trip& trip, size_t m) const {
  FoundTrip best{.seconds = kInfiniteSeconds};
  for (const Away& choice : choices) {
    const double other =
        (1 - prices_.gap[trip.last_row - 1]) * choice.rerun_seconds + LeaveSeconds(choice, trip);
    VisitReturns(choice, trip, [&](const Return& way) {
      if (m < way.first_level || m >= way.end_level) return;
      if (other + way.seconds < best.seconds) best = {other + way.seconds, &choice, way};
    });
  }
  return best;
}

double PricedRecurrence::TripSeconds(const std::vector<Away>& choices, const Trip& trip,
                                     size_t m) const {
  return FindTrip(choices, trip, m).seconds;
}

void PricedRecurrence::TraceTrip(const std::vector<Away>& choices, const Trip& trip, size_t m,
                                 LinkPrices* slopes) const {
  const FoundTrip found = FindTrip(choices, trip, m);
  if (found.choice == nullptr) return;
  slopes->gap[trip.last_row - 1] -= found.choice->rerun_seconds;
  TraceLeaving(*found.choice, trip, slopes);
  slopes->gap[trip.last_row - 1] += found.way.gap_seconds;
  slopes->backward[trip.last_row] += found.way.beside_seconds;
}

// As LeaveSeconds() decides.
void PricedRecurrence::TraceLeaving(const Away& choice, const Trip& trip,
                                    LinkPrices* slopes) const {
  const double copy = OffloadSeconds(choice.bytes);
  const double before = prices_.forward[choice.stage + 1];
  const double after = prices_.backward[trip.last_row];
  const double later = platform_.half_duplex ? std::min(before, after) * copy : 0;
  if (trip.left_at == rows_) {
    if (before * copy <= later + PriceHeld(rows_, choice.bytes)) {
      slopes->forward[choice.stage + 1] += copy;
      return;
    }
    TraceHeld(rows_, choice.bytes, slopes);
  }
  if (!platform_.half_duplex) return;
  (before < after ? slopes->forward[choice.stage + 1] : slopes->backward[trip.last_row]) += copy;
}

}  // namespace stowage
