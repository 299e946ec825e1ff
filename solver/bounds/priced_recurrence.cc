#include "solver/bounds/priced_recurrence.h"

#include <algorithm>
#include <utility>

#include "solver/base/checked_math.h"

namespace stowage {
namespace {

// Choices of a value that are told apart. More are joined to one that is no larger and no dearer.
constexpr size_t kMaxChoices = 3;

}  // namespace

LinkPrices PricesOf(const EvenLinkPrices& even, int stages, const Platform& platform) {
  LinkPrices prices(stages);
  const size_t size = prices.forward.size();
  prices.forward.assign(size, even.offload);
  prices.backward.assign(size, even.backward);
  prices.gap.assign(size, even.gap);
  // Leaving before row L+1 and after it is then equally dear, up to the latency.
  prices.held = even.offload - (platform.half_duplex ? std::min(even.offload, even.backward) : 0);
  return prices;
}

PricedRecurrence::PricedRecurrence(const Chain& chain, const Platform& platform, int64_t max_levels)
    : chain_(chain),
      platform_(platform),
      rows_(chain.length() + 1),
      unit_bytes_(FittingUnit(max_levels)) {
  levels_ = LevelsOf(platform.memory_bytes) + 1;
  DescribeValues();
  const size_t entries = Offset(rows_, Late()) + levels_;
  for (int root = 0; root < kRoots; ++root) {
    lost_[root] = MakeLargeBuffer<double>(entries);
    if (!platform.has_link()) continue;
    returned_[root] = MakeLargeBuffer<double>(entries);
    returned_from_last_row_[root] = MakeLargeBuffer<double>(entries);
  }
  scratch_.resize(levels_);
  away_.resize(levels_);
  rest_.resize(levels_ * static_cast<size_t>(rows_));
}

// Of the units that make 2/3 of `max_levels` or more, the one that loses least by rounding sizes
// down. In chains of similar stages the same remainder is lost at every value. What is cut off the
// budget makes the bound closer; one cut limits all values that are held at once.
int64_t PricedRecurrence::FittingUnit(int64_t max_levels) const {
  constexpr int kTried = 128;
  constexpr int64_t kBudget = 10;
  const int64_t min_unit = platform_.memory_bytes / max_levels + 1;
  int64_t best = min_unit;
  int64_t best_lost = INT64_MAX;
  for (int i = 0; i < kTried; ++i) {
    const int64_t unit = min_unit + min_unit / 2 / kTried * i;
    int64_t lost = -kBudget * (platform_.memory_bytes % unit);
    for (const Stage& stage : chain_.stages) {
      lost += stage.saved_bytes % unit + stage.output_bytes % unit;
    }
    if (lost >= best_lost) continue;
    best_lost = lost;
    best = unit;
  }
  return best;
}

double PricedRecurrence::Work(int stages, int64_t levels, bool has_link) {
  const double rows = stages + 1;
  return rows * rows * rows / 6 * static_cast<double>(levels) * (has_link ? 4 : 2);
}

void PricedRecurrence::DescribeValues() {
  forwards_ = {0};
  need_bytes_ = {0};
  reruns_ = {false};
  replay_gains_ = {0};
  for (int s = 1; s <= rows_; ++s) {
    const Stage& stage = chain_.stage(s);
    forwards_.push_back(forwards_.back() + stage.forward_seconds);
    replay_gains_.push_back(stage.forward_seconds - stage.ReplaySeconds());
    need_bytes_.push_back(stage.saved_bytes + chain_.gradient_bytes(s) +
                          chain_.gradient_bytes(s - 1) + stage.backward_overhead_bytes);
    reruns_.push_back(!stage.no_recompute && s < rows_);
  }
  for (int k = 0; k < rows_; ++k) {
    const bool may_leave = platform_.has_link() && (k == 0 || !chain_.stage(k).no_offload);
    Value saved{.bytes = k == 0 ? 0 : chain_.saved_bytes(k), .may_leave = may_leave};
    saved.held.push_back({saved.bytes, 0});
    if (may_leave) saved.away.push_back({k, saved.bytes, saved.bytes, 0});
    values_[kSaved].push_back(saved);

    // a^k itself, then a^p for smaller p as long as forwards p+1..k may run again.
    Value output{.bytes = chain_.output_bytes(k), .may_leave = may_leave};
    int64_t min_bytes = INT64_MAX;
    int64_t min_away_bytes = INT64_MAX;
    for (int p = k; p >= std::min(k, 1); --p) {
      const int64_t bytes = chain_.output_bytes(p);
      const double rerun_seconds = forwards_[k] - forwards_[p];
      if (bytes < min_bytes) {
        min_bytes = bytes;
        output.held.push_back({bytes, rerun_seconds});
      }
      const bool leaves = platform_.has_link() && (p == 0 || !chain_.stage(p).no_offload);
      if (leaves && bytes < min_away_bytes) {
        min_away_bytes = bytes;
        output.away.push_back({p, bytes, min_bytes, rerun_seconds});
      }
      if (leaves) output.away.back().stage = p;
      if (!reruns_[p]) break;
    }
    const auto join = [](auto& choices) {
      if (choices.size() <= kMaxChoices) return;
      const double rerun_seconds = choices[kMaxChoices - 1].rerun_seconds;
      choices[kMaxChoices - 1] = choices.back();
      choices[kMaxChoices - 1].rerun_seconds = rerun_seconds;
      choices.resize(kMaxChoices);
    };
    join(output.held);
    join(output.away);
    values_[kCheckpoint].push_back(std::move(output));
  }
}

double PricedRecurrence::SecondsAt(const LinkPrices& prices, const std::stop_token& stop) {
  prices_ = prices;
  double computing = 0;
  for (int l = 1; l <= rows_; ++l) {
    computing += (1 - prices_.forward[l]) * chain_.stage(l).forward_seconds +
                 (1 - prices_.backward[l]) * chain_.stage(l).backward_seconds;
  }
  // By blocks of s: what [k+1..t] costs is then read for a whole block at once.
  constexpr int kBlock = 8;
  std::vector<size_t> lowest(static_cast<size_t>(rows_) + 1);
  for (int high = rows_; high >= 1; high -= kBlock) {
    if (stop.stop_requested()) return 0;
    const int low = std::max(1, high - kBlock + 1);
    for (int t = low; t <= rows_; ++t) {
      for (int s = std::min(high, t); s >= low; --s) {
        lowest[s] = std::min(levels_, std::max(lowest[s], RowLevels(kCheckpoint, t)));
        lowest_ = lowest[s];
        FillParts(s, t);
        if (t == rows_) FillParts(s, Late());
      }
    }
  }
  const double held = PriceHeld(rows_, platform_.memory_bytes - need_bytes_[rows_]);
  return computing + Lost(kCheckpoint, 1, rows_)[levels_ - 1] - held;
}

void PricedRecurrence::FillParts(int s, int t) {
  if (s < std::min(t, rows_)) FindRests(s, t);
  FillPart(kCheckpoint, s, t);
  if (s > 1) FillPart(kSaved, s, t);
}

// The least seconds lost of part [s..t] by level, what it hangs from included:
//   saving      stage s saved, the rest hangs from ā^s
//   splitting   [k+1..t] hangs from a^k, then [s..k] from the value; forwards s..k run once more
// in both cases with the value on the device (LowerByStaying) or on the host (LowerByLeaving) while
// the rest or [k+1..t] runs.
void PricedRecurrence::FillPart(Root root, int s, int t) {
  double* const lost = Lost(root, s, t);
  std::fill_n(lost, levels_, kInfiniteSeconds);
  const bool single = s == std::min(t, rows_);
  if (single) {
    const double held = PriceHeld(t, ValueOf(root, s).bytes);
    for (size_t m = RowLevels(root, s); m < levels_; ++m) lost[m] = held;
  } else {
    LowerByStaying(root, s, t);
  }
  if (!platform_.has_link()) return;
  if (!single) LowerByLeaving(root, s, t);
  if (t < rows_) FillReturned(root, s, t);
}

void PricedRecurrence::LowerByStaying(Root root, int s, int t) {
  double* const lost = Lost(root, s, t);
  const Value& value = ValueOf(root, s);
  const size_t size = LevelsOf(value.bytes);
  const double held = PriceHeld(t, value.bytes);
  const double* const saved = saved_rest_;
  for (size_t m = std::max(size, RowLevels(root, s)); m < levels_; ++m) {
    lost[m] = std::min(lost[m], held + saved[m - size]);
  }
  for (const Held& choice : value.held) {
    const size_t smaller = LevelsOf(choice.bytes);
    const size_t from = std::max(smaller, lowest_);
    if (from >= levels_) continue;
    const double choice_held = PriceHeld(t, choice.bytes);
    for (size_t i = 0; i < splits_.size(); ++i) {
      const int k = s + static_cast<int>(i);
      terms_[i] = {splits_[i].a + from - smaller, Lost(root, s, k) + from,
                   splits_[i].base + choice_held + (1 - prices_.gap[k]) * choice.rerun_seconds};
    }
    LowerToTerms(terms_, levels_ - from, lost + from);
  }
}

void PricedRecurrence::LowerByLeaving(Root root, int s, int t) {
  const Value& value = ValueOf(root, s);
  if (value.away.empty()) return;
  std::vector<double>& away = away_;
  std::fill(away.begin(), away.end(), kInfiniteSeconds);
  if (value.may_leave) {
    // It returns before row s, which reads it, as itself.
    const double* const saved = saved_rest_;
    for (size_t m = RowLevels(root, s); m < levels_; ++m) away[m] = saved[m];
    AddTrip({value.away.front()}, OwnTrip(s, t), away.data());
  }
  for (size_t i = 0; i < splits_.size(); ++i) {
    const int k = s + static_cast<int>(i);
    terms_[i] = {splits_[i].a + lowest_, Returned(root, s, k, t) + lowest_, splits_[i].base};
  }
  LowerToTerms(terms_, levels_ - lowest_, away.data() + lowest_);
  double* const lost = Lost(root, s, t);
  for (size_t m = 0; m < levels_; ++m) lost[m] = std::min(lost[m], away[m]);
}

// What part [s..t] hangs from was away and returns before the part runs. Where the part is more
// than row s, the value may have returned earlier, to run forwards whose result waited instead of
// it.
void PricedRecurrence::FillReturned(Root root, int s, int t) {
  for (const int left_at : {rows_, rows_ - 1}) {
    double* const returned = Returned(root, s, t, left_at);
    std::copy_n(Lost(root, s, t), levels_, returned);
    AddTrip(ValueOf(root, s).away, ReturnTrip(s, t, left_at), returned);
  }
}

// Of the value itself while part [s+1..t] runs, which hangs from the saved stage s.
PricedRecurrence::Trip PricedRecurrence::OwnTrip(int s, int t) const {
  return {.left_at = t, .last_row = s + 1, .row_bytes = need_bytes_[s + 1] + chain_.saved_bytes(s)};
}

// Of what part [s..t] hangs from, until the part runs.
PricedRecurrence::Trip PricedRecurrence::ReturnTrip(int s, int t, int left_at) const {
  return {.left_at = left_at,
          .last_row = t + 1,
          .row_bytes = need_bytes_[t + 1] + chain_.output_bytes(t),
          .instead_bytes = InsteadBytes(s, t)};
}

// The least of the values that part [s..t] makes of what it hangs from.
int64_t PricedRecurrence::InsteadBytes(int s, int t) const {
  if (s == t) return INT64_MAX;
  int64_t bytes = chain_.saved_bytes(s);
  for (int k = s; k < t; ++k) bytes = std::min(bytes, chain_.output_bytes(k));
  return bytes;
}

// Adds OFFLOAD, PREFETCH and the forwards that run again, of the cheapest choice.
void PricedRecurrence::AddTrip(const std::vector<Away>& choices, const Trip& trip,
                               double* seconds) {
  std::fill(scratch_.begin(), scratch_.end(), kInfiniteSeconds);
  double* const least = scratch_.data();
  for (const Away& choice : choices) {
    const double other =
        (1 - prices_.gap[trip.last_row - 1]) * choice.rerun_seconds + LeaveSeconds(choice, trip);
    VisitReturns(choice, trip, [&](const Return& way) {
      const double cost = other + way.seconds;
      for (size_t m = way.first_level; m < way.end_level; ++m) least[m] = std::min(least[m], cost);
    });
  }
  for (size_t m = 0; m < levels_; ++m) seconds[m] += least[m];
}

// What hangs from ā^s once stage s of [s..t] is saved, and from a^k once [s..t] is split after k:
// the less costly of a value that exists at row L+1 and one that is made later.
void PricedRecurrence::FindRests(int s, int t) {
  saved_rest_ = Rest(kSaved, s + 1, t, chain_.stage(s).forward_seconds, 0);
  splits_.clear();
  for (int k = s; k < std::min(t, rows_) && reruns_[k]; ++k) {
    splits_.push_back({.a = Rest(kCheckpoint, k + 1, t, SweepSeconds(s, k), splits_.size() + 1),
                       .base = (1 - prices_.gap[k]) * (SweepSeconds(s, k) - replay_gains_[k])});
  }
  terms_.resize(splits_.size());
}

const double* PricedRecurrence::Rest(Root root, int s, int t, double late_seconds, size_t place) {
  if (t < rows_ || PriceHeld(rows_, 1) == 0) return Lost(root, s, std::min(t, rows_));
  const double* const now = Lost(root, s, rows_);
  const double* const late = Lost(root, s, Late());
  double* const rest = rest_.data() + place * levels_;
  for (size_t m = 0; m < levels_; ++m) {
    rest[m] = std::min(now[m], late[m] + (1 - prices_.gap[GapOfLate(s)]) * late_seconds);
  }
  return rest;
}

// The OFFLOAD of a trip. What left at row L+1 was on the host already, or still on the device,
// where it is paid for, and leaves later. The copy of a value that is on the device at that row
// runs before the row or after it. The prices after it are those of the direction back, so only a
// shared link has one.
double PricedRecurrence::LeaveSeconds(const Away& choice, const Trip& trip) const {
  const double copy = OffloadSeconds(choice.bytes);
  const double before = prices_.forward[choice.stage + 1];
  const double after = prices_.backward[trip.last_row];
  const double later = platform_.half_duplex ? std::min(before, after) * copy : 0;
  if (trip.left_at != rows_) return later;
  return std::min(before * copy, later + PriceHeld(rows_, choice.bytes));
}

// The price of bytes on the device at row L+1.
double PricedRecurrence::PriceHeld(int t, int64_t bytes) const {
  if (t != rows_ || !platform_.has_link()) return 0;
  return prices_.held * static_cast<double>(bytes) / platform_.offload_bytes_per_second;
}

// What row s needs, with the value that its part hangs from.
size_t PricedRecurrence::RowLevels(Root root, int s) const {
  return LevelsOf(need_bytes_[s] + ValueOf(root, s).bytes);
}

double PricedRecurrence::SweepSeconds(int s, int k) const {
  return forwards_[k] - forwards_[s - 1];
}

size_t PricedRecurrence::Offset(int s, int t) const {
  const auto row = static_cast<size_t>(s) - 1;
  const auto rows = static_cast<size_t>(Late());
  return (row * rows - row * (row - 1) / 2 + static_cast<size_t>(t - s)) * levels_;
}

double PricedRecurrence::OffloadSeconds(int64_t bytes) const {
  return platform_.transfer_latency_seconds +
         static_cast<double>(bytes) / platform_.offload_bytes_per_second;
}

double PricedRecurrence::PrefetchSeconds(int64_t bytes) const {
  return platform_.transfer_latency_seconds +
         static_cast<double>(bytes) / platform_.prefetch_rate();
}

}  // namespace stowage
