// The search for the prices at which priced_recurrence.h finds the largest bound. The bound is
// concave in the prices, since it is the least of many sums that are linear in them.
#ifndef STOWAGE_SOLVER_BOUNDS_PRICE_SEARCH_H_
#define STOWAGE_SOLVER_BOUNDS_PRICE_SEARCH_H_

#include <stop_token>

#include "solver/bounds/priced_recurrence.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// One search. Its work is counted in evaluations of the bound, not in time, so equal inputs give
// equal bounds. Not thread-safe. Requires: the platform has a link.
class PriceSearch {
 public:
  // What a search knows of the least makespan, and when it ends.
  struct Limits {
    double max_seconds = 0;  // the makespan of a schedule: no bound exceeds it
    int evaluations = 0;     // of all calls together
  };

  // Borrows all but the limits.
  PriceSearch(const Chain& chain, const Platform& platform, PricedRecurrence* recurrence,
              const Limits& limits, const std::stop_token& stop);

  // Evaluates prices that are the same at every stage: those that are good of most chains and,
  // where many evaluations are left, of some; then others around the best, by ever smaller steps.
  void RunEven();
  // The same around prices that are known to be good.
  void RunEvenFrom(const EvenLinkPrices& prices);

  // A proximal bundle method, for at most so many evaluations: the next prices are the best ones
  // near the center for all planes that the evaluations so far have shown. They become the center
  // where the bound rises by enough of what the planes promise; otherwise they add a plane, and in
  // the end a step becomes shorter. Source: Lemaréchal, "Nonsmooth optimization and descent
  // methods", 1978.
  void Climb(const LinkPrices& from, int evaluations);

  double best_seconds() const { return best_seconds_; }
  const LinkPrices& best() const { return best_; }
  // Of those that are the same at every stage.
  const EvenLinkPrices& best_even() const { return best_even_; }

 private:
  bool Ends() const;
  double Evaluate(const LinkPrices& prices);
  bool TryEven(EvenLinkPrices prices);
  void RefineEven(double first_step);
  bool StepEven(double step);

  const Chain& chain_;
  const Platform& platform_;
  PricedRecurrence* const recurrence_;
  const double max_seconds_;
  int left_;
  const std::stop_token& stop_;
  LinkPrices best_;
  EvenLinkPrices best_even_;
  double best_seconds_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BOUNDS_PRICE_SEARCH_H_
