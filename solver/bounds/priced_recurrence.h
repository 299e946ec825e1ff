// A lower bound on the makespan that counts how often memory forces forwards to run again: rotor's
// recurrence (algorithms/rematerialization/rotor_table.h) relaxed until every schedule within the
// limits, persistent or not, with any transfers, costs at least as much. The link enters by prices,
// the multipliers of a Lagrangian relaxation: any prices give a bound.
//
// "Row j" is the moment at which BACKWARD j starts, "gap j" the time between the end of BACKWARD
// j+1 and row j. Why every schedule costs at least as much:
//
// Groups. The ā^j of a row goes back, through the forwards that made it and their inputs, to the
// chain's input. A value exists once at a time, so these ways never cross: the rows whose ways
// share a value are neighbours, a group, and groups only split. The value of a group with lowest
// row g is below g, or it is ā^g. Then no schedule is faster for
// - moving a group's value to g-1 once it exists;
// - splitting a group only when its highest row comes next;
// - keeping what ran twice before row L+1 when it ran first.
// A value may be made early all the same, to stay in place of a larger one, or of one that would
// have to return for it: then it may as well be made when its group was.
// That leaves parts [s..t] which hang from value s-1, as in rotor's recurrence.
//
// Smaller values. A value may wait as a^p with p < g-1. It is forgotten only after forwards
// p+1..g-1 ran once more: it takes the size of a^p and pays for these forwards.
//
// Memory counts at rows only, each size rounded down to levels.
//
// Trips. A value that is on the host at some row of a part leaves the device and returns, each
// time. It returns before the part's next row. If the last row had no room for it, nor for a value
// made from it that waits instead, it returns within a gap, when no backward runs.
//
// Time. Before row L+1, between the ends of two first forwards: at least the second one, and at
// least the OFFLOADs of the values that exist by then; hence any average of the two. A gap: its
// forwards and its PREFETCHes. A backward: itself and the PREFETCHes beside it. Where prices differ
// from stage to stage, LinkPrices makes the cheapest time for an OFFLOAD the one right after its
// value is made, for a PREFETCH beside a backward the last row before its value is read, for a
// forward the gap in which its group's highest row comes next. So each pays the price of that. A
// value that is on the device at row L+1 pays a price for each byte, so that one cannot leave later
// for nothing, or is made after that row by forwards that run once more.
#ifndef STOWAGE_SOLVER_BOUNDS_PRICED_RECURRENCE_H_
#define STOWAGE_SOLVER_BOUNDS_PRICED_RECURRENCE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <vector>

#include "solver/base/large_buffer.h"
#include "solver/kernels/min_sum.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// The weight of transfers in an average of compute time and transfers, from 0 to 1, in each of the
// three kinds of time: by stage, the loss at L+1; index 0 counts for nothing. All 0: transfers are
// free.
//
// Those of forwards and backwards never fall with the stage, those of gaps never rise with it and
// are at least those of all backwards.
struct LinkPrices {
  explicit LinkPrices(int stages = 0)
      : forward(static_cast<size_t>(stages) + 2), backward(forward), gap(forward) {}

  std::vector<double> forward;   // between the ends of the first forwards l-1 and l
  std::vector<double> backward;  // beside BACKWARD l
  std::vector<double> gap;       // between the end of BACKWARD l+1 and the start of BACKWARD l
  double held = 0;  // of bytes on the device at row L+1, in the time that their OFFLOAD takes
};

// The same at every stage.
struct EvenLinkPrices {
  double offload = 0;   // before row L+1
  double backward = 0;  // beside backwards
  double gap = 0;       // in gaps; at least `backward`
};
LinkPrices PricesOf(const EvenLinkPrices& even, int stages, const Platform& platform);

// One chain and platform at any prices. Not thread-safe: the tables are reused.
class PricedRecurrence {
 public:
  // Requires: Violations() of both are empty. `chain` and `platform` must outlive the object.
  PricedRecurrence(const Chain& chain, const Platform& platform, int64_t max_levels);

  // The bound in seconds; infinite where no schedule fits, and 0 once `stop` is set.
  // O(stages^3 * levels). Without a link the prices have to be 0.
  double SecondsAt(const LinkPrices& prices, const std::stop_token& stop = {});

  // By how much the bound of the last SecondsAt(), which was finite, grows with each price as long
  // as the same relaxed schedule is the fastest. O(stages^2). Requires a link.
  LinkPrices Slopes() const;

  // The additions of one SecondsAt().
  static double Work(int stages, int64_t levels, bool has_link);

 private:
  // What a part hangs from: a^(s-1), or ā^(s-1), which stays until BACKWARD s-1.
  enum Root { kCheckpoint, kSaved };
  static constexpr int kRoots = 2;

  // A size in which a value may wait, and the stages that then run once more.
  struct Held {
    int64_t bytes = 0;
    double rerun_seconds = 0;
  };
  // A value that is on the host for a while, and its size when it is on the device again.
  struct Away {
    int stage = 0;  // the first whose output it may be
    int64_t bytes = 0;
    int64_t returned_bytes = 0;
    double rerun_seconds = 0;
  };
  struct Value {
    int64_t bytes = 0;
    bool may_leave = false;       // the value itself, not a smaller one that waits in its place
    std::vector<Held> held = {};  // the first is the value itself
    std::vector<Away> away = {};
  };

  // A value leaves the device and returns to it.
  struct Trip {
    int left_at = 0;                    // the last row of the part that hung from it
    int last_row = 0;                   // before it returns
    int64_t row_bytes = 0;              // what that row needs without it
    int64_t instead_bytes = INT64_MAX;  // of another value that may wait there instead of it
  };

  // How a value returns, with these levels.
  struct Return {
    double seconds = 0;
    size_t first_level = 0;
    size_t end_level = 0;
    double beside_seconds = 0;  // of copies beside the last row's backward or earlier ones
    double gap_seconds = 0;     // of copies in the gap after it
  };

  int64_t FittingUnit(int64_t max_levels) const;
  void DescribeValues();
  void FillParts(int s, int t);
  void FillPart(Root root, int s, int t);
  void LowerByStaying(Root root, int s, int t);
  void LowerByLeaving(Root root, int s, int t);
  void FillReturned(Root root, int s, int t);
  void AddTrip(const std::vector<Away>& choices, const Trip& trip, double* seconds);
  void FindRests(int s, int t);
  const double* Rest(Root root, int s, int t, double late_seconds, size_t place);
  template <typename Visit>
  void VisitReturns(const Away& choice, const Trip& trip, const Visit& visit) const;
  double LeaveSeconds(const Away& choice, const Trip& trip) const;
  double PriceHeld(int t, int64_t bytes) const;
  int64_t InsteadBytes(int s, int t) const;

  // What the relaxed schedule of a table's entry costs at which prices, added to `slopes`.
  void TracePart(Root root, int s, int t, size_t m, LinkPrices* slopes) const;
  void TraceRest(Root root, int s, int t, double late_seconds, size_t m, LinkPrices* slopes) const;
  void TraceHeld(int t, int64_t bytes, LinkPrices* slopes) const;
  void TraceTrip(const std::vector<Away>& choices, const Trip& trip, size_t m,
                 LinkPrices* slopes) const;
  void TraceLeaving(const Away& choice, const Trip& trip, LinkPrices* slopes) const;
  struct FoundTrip {
    double seconds = 0;
    const Away* choice = nullptr;
    Return way = {};
  };
  FoundTrip FindTrip(const std::vector<Away>& choices, const Trip& trip, size_t m) const;
  double TripSeconds(const std::vector<Away>& choices, const Trip& trip, size_t m) const;
  double RestSeconds(Root root, int s, int t, double late_seconds, size_t m) const;
  Trip OwnTrip(int s, int t) const;
  Trip ReturnTrip(int s, int t, int left_at) const;

  // In place of t: the part ends at row L+1, and what it hangs from is made after that row.
  int Late() const { return rows_ + 1; }
  // The last gap in which what such a part [s..] hangs from can be made.
  int GapOfLate(int s) const { return std::min(s, rows_ - 1); }
  const Value& ValueOf(Root root, int s) const { return values_[root][static_cast<size_t>(s) - 1]; }
  size_t LevelsOf(int64_t bytes) const { return static_cast<size_t>(bytes / unit_bytes_); }
  size_t RowLevels(Root root, int s) const;
  double SweepSeconds(int s, int k) const;
  double* Lost(Root root, int s, int t) const { return lost_[root].get() + Offset(s, t); }
  double* Returned(Root root, int s, int t, int left_at) const {
    const auto& returned = left_at == rows_ ? returned_from_last_row_ : returned_;
    return returned[root].get() + Offset(s, t);
  }
  size_t Offset(int s, int t) const;
  double OffloadSeconds(int64_t bytes) const;
  double PrefetchSeconds(int64_t bytes) const;

  const Chain& chain_;
  const Platform& platform_;
  const int rows_;  // L + 1
  const int64_t unit_bytes_;
  size_t levels_ = 0;                 // the budget is levels_ - 1
  std::vector<double> forwards_;      // seconds of forwards 1..l
  std::vector<double> replay_gains_;  // by stage: u_F - u_R
  std::vector<int64_t> need_bytes_;   // of BACKWARD s besides value s-1
  std::vector<bool> reruns_;          // whether forward s may run again
  std::vector<Value> values_[kRoots];

  // By what the part hangs from, part [s..t] and level: the seconds lost; and the same with the
  // value's trip to the host before, by whether it left at row L+1.
  LargeBuffer<double> lost_[kRoots];
  LargeBuffer<double> returned_[kRoots];
  LargeBuffer<double> returned_from_last_row_[kRoots];
  std::vector<double> scratch_;         // by level, of AddTrip()
  std::vector<double> away_;            // likewise, of LowerByLeaving()
  std::vector<double> rest_;            // likewise, of Rest(), several
  size_t lowest_ = 0;                   // of the current part: nothing fits into fewer levels
  const double* saved_rest_ = nullptr;  // of the current part: see FindRests()
  std::vector<SumTerm> splits_;         // likewise, by k from s on; b is left open
  std::vector<SumTerm> terms_;
  LinkPrices prices_;
};

// Calls visit() with each way to return: beside a backward, with room for the value in its row or
// for another one in its place; or in the gap, itself or the other one.
template <typename Visit>
void PricedRecurrence::VisitReturns(const Away& choice, const Trip& trip,
                                    const Visit& visit) const {
  const double copy = PrefetchSeconds(choice.bytes);
  const double beside = prices_.backward[trip.last_row] * copy;
  const double gap_price = prices_.gap[trip.last_row - 1];
  const int64_t waiting_bytes = std::min(choice.returned_bytes, trip.instead_bytes);
  const size_t room = std::min(LevelsOf(trip.row_bytes) + LevelsOf(waiting_bytes), levels_);
  visit({.seconds = beside, .first_level = room, .end_level = levels_, .beside_seconds = copy});
  visit({.seconds = gap_price * copy, .end_level = room, .gap_seconds = copy});
  if (trip.instead_bytes == INT64_MAX) return;
  const double instead = PrefetchSeconds(trip.instead_bytes);
  visit({.seconds = beside + gap_price * instead,
         .end_level = room,
         .beside_seconds = copy,
         .gap_seconds = instead});
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BOUNDS_PRICED_RECURRENCE_H_
