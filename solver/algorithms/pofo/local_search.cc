#include "solver/algorithms/pofo/local_search.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "solver/algorithms/transfers/forward_parts.h"
#include "solver/algorithms/transfers/transfer_placement.h"
#include "solver/base/status_macros.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

// Of a makespan: less is a matter of the order of additions.
constexpr double kWorthwhile = 1e-9;

// What is chosen for the gaps of one value, in program order. Parts that change elsewhere leave
// them as they are.
using ValueChoices = std::vector<GapChoice>;

struct State {
  std::vector<ForwardPart> parts;     // empty: the sequence is fixed
  std::vector<ValueChoices> choices;  // by value
};

class Search {
 public:
  Search(const Chain& chain, const Platform& platform, const ImproveOptions& options,
         const SolveContext& context)
      : chain_(chain),
        options_(options),
        context_(context),
        loss_(chain.length() + 1),
        moves_(platform.has_link()),
        placement_(chain, platform) {}

  // False: the schedule's own transfers cannot be placed as they are, and nothing else was found.
  bool Start(const Schedule& schedule) {
    fixed_ = SequenceOf(chain_, schedule);
    state_.choices.assign(static_cast<size_t>(loss_) + 1, {});
    std::optional<std::vector<ForwardPart>> parts = PartsOf(chain_, fixed_.operations);
    if (parts.has_value()) state_.parts = *std::move(parts);
    ReadChoices(schedule);
    Rejoin();
    seconds_ = Evaluate();
    best_seconds_ = seconds_;
    best_ = state_;
    return seconds_ < kNotPlaced;
  }

  absl::Status Run() {
    const double first_heat = 2e-3 * best_seconds_;
    const double last_heat = 1e-6 * best_seconds_;
    constexpr int kRounds = 4;  // each starts over from the best state so far
    for (int round = 0; round < kRounds; ++round) {
      const int64_t begin = spent_;
      const int64_t share = (options_.effort - begin) / (kRounds - round);
      state_ = best_;
      Rejoin();
      seconds_ = Evaluate();
      while (spent_ - begin < share) {
        RETURN_IF_ERROR(context_.CheckStop());
        context_.Report(static_cast<double>(spent_) / static_cast<double>(options_.effort));
        const double at = static_cast<double>(spent_ - begin) / static_cast<double>(share);
        const double heat = first_heat / (1 << round) * std::pow(last_heat / first_heat, at);
        Step(heat);
        spent_ += 64;  // so that a state without moves comes to an end
      }
    }
    return absl::OkStatus();
  }

  double best_seconds() const { return best_seconds_; }

  Schedule BestSchedule() {
    state_ = best_;
    Rejoin();
    Evaluate();
    return placement_.ToSchedule(Sequence());
  }

 private:
  static constexpr double kNotPlaced = 1e300;

  const ComputeSequence& Sequence() const {
    return state_.parts.empty() ? fixed_ : joined_.sequence;
  }

  uint32_t Below(size_t bound) {
    return static_cast<uint32_t>((static_cast<uint64_t>(random_()) * bound) >> 32);
  }
  bool OneIn(uint32_t times) { return Below(times) == 0; }

  // Which gaps the schedule's own transfers use.
  void ReadChoices(const Schedule& schedule) {
    std::vector<std::vector<int>> released(state_.choices.size());  // by value: before which ones
    int index = 0;
    for (const Operation& operation : schedule.operations) {
      if (operation.kind == OperationKind::kRelease) {
        released[static_cast<size_t>(operation.stage)].push_back(index);
      }
      if (IsCompute(operation.kind)) ++index;
    }
    for (const Gap& gap : fixed_.gaps) {
      ValueChoices& choices = state_.choices[static_cast<size_t>(gap.value)];
      const std::vector<int>& of_value = released[static_cast<size_t>(gap.value)];
      const auto next = std::upper_bound(of_value.begin(), of_value.end(), gap.after);
      const bool moved = next != of_value.end() && *next <= gap.before;
      choices.push_back({});
      choices.back().moved = moved;
    }
  }

  // Places the state; kNotPlaced when it does not fit. Rejoin() comes first where parts have
  // changed.
  double Evaluate() {
    const ComputeSequence& sequence = Sequence();
    choices_.assign(sequence.gaps.size(), GapChoice{});
    seen_.assign(state_.choices.size(), 0);
    for (size_t g = 0; g < sequence.gaps.size(); ++g) {
      const auto value = static_cast<size_t>(sequence.gaps[g].value);
      const size_t ordinal = seen_[value]++;
      if (ordinal < state_.choices[value].size()) choices_[g] = state_.choices[value][ordinal];
    }
    const std::optional<double> seconds =
        placement_.Place(sequence, choices_, options_.memory_bytes);
    // A step of a walk takes far less than an operation; where there are far more they count.
    constexpr int64_t kStepsAsLong = 16;
    spent_ += std::max<int64_t>(sequence.size(), placement_.walked() / kStepsAsLong);
    return seconds.value_or(kNotPlaced);
  }

  void Rejoin() {
    if (!state_.parts.empty()) Join(chain_, state_.parts, &joined_);
  }

  // Tries one move.
  void Step(double heat) {
    const bool parts_move = !state_.parts.empty() && OneIn(2);
    undo_.clear();
    if (parts_move ? !ChangeParts() : !ChangeGap()) return;
    if (parts_move) {
      std::swap(joined_, joined_before_);
      Rejoin();
    }
    const double seconds = Evaluate();
    const bool accepted = seconds <= seconds_ ||
                          (seconds < kNotPlaced && seconds - seconds_ < heat * -std::log(Share()));
    if (accepted) {
      seconds_ = seconds;
      if (seconds < best_seconds_ * (1 - kWorthwhile)) {
        best_seconds_ = seconds;
        best_ = state_;
      }
    } else {
      for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) {
        state_.choices[undo->value][undo->ordinal] = undo->choice;
      }
      if (!parts_move) return;
      std::swap(joined_, joined_before_);
      std::vector<ForwardPart> with;
      with.swap(replaced_.parts);
      Replace(replaced_.at, replaced_.with, std::move(with));
    }
  }

  double Share() { return (static_cast<double>(random_()) + 1) / 0x1p32; }

  GapChoice& Choice(int value, size_t ordinal) {
    ValueChoices& choices = state_.choices[static_cast<size_t>(value)];
    if (choices.size() <= ordinal) choices.resize(ordinal + 1);
    return choices[ordinal];
  }

  void Set(int value, size_t ordinal, const GapChoice& choice) {
    GapChoice& old = Choice(value, ordinal);
    undo_.push_back({static_cast<size_t>(value), ordinal, old});
    old = choice;
  }

  // One value more or less to the host, or in its place; or the same one at other times.
  bool ChangeGap() {
    if (!moves_) return false;
    const ComputeSequence& sequence = Sequence();
    if (sequence.gaps.empty()) return false;
    const Gap& gap = sequence.gaps[Below(sequence.gaps.size())];
    const size_t ordinal = OrdinalOf(gap);
    GapChoice choice = Choice(gap.value, ordinal);
    const uint32_t kind = Below(8);
    if (!choice.moved || kind < 3) {
      choice.moved = !choice.moved;
      choice.at_once = false;
      Set(gap.value, ordinal, choice);
      // Another in its place.
      if (OneIn(2)) {
        const Gap& other = sequence.gaps[Below(sequence.gaps.size())];
        const size_t other_ordinal = OrdinalOf(other);
        GapChoice swapped = Choice(other.value, other_ordinal);
        if (swapped.moved == choice.moved) {
          swapped.moved = !swapped.moved;
          Set(other.value, other_ordinal, swapped);
        }
      }
      return true;
    }
    if (kind == 3) {
      choice.at_once = !choice.at_once;
    } else if (kind < 6) {
      choice.offload_delay = Delay(choice.offload_delay);
    } else {
      choice.prefetch_delay = Delay(choice.prefetch_delay);
    }
    Set(gap.value, ordinal, choice);
    return true;
  }

  int16_t Delay(int16_t old) {
    if (old > 0 && OneIn(3)) return 0;
    const int span = 1 << Below(5);
    return static_cast<int16_t>(std::clamp(old + (OneIn(2) ? span : -span), 0, 512));
  }

  // Which of its value's gaps it is.
  size_t OrdinalOf(const Gap& gap) const {
    size_t ordinal = 0;
    for (const Gap& other : Sequence().gaps) {
      if (&other == &gap) break;
      if (other.value == gap.value) ++ordinal;
    }
    return ordinal;
  }

  // The neighbours of `parts`; false when the move drawn is none.
  bool ChangeParts() {
    const size_t p = Below(state_.parts.size());
    switch (Below(6)) {
      case 0:
        return Merge(p);
      case 1:
        return Split(p);
      case 2:
        return Turn(p);
      case 3:
        return Shift(p);
      case 4:
        return Vary(p);
      default:
        return SaveAndMove(p);
    }
  }

  // Stages first..last passed through, and run again in one of the ways known.
  std::optional<ForwardPart> Passed(int first, int last) {
    if (last >= loss_) return std::nullopt;
    if (options_.sequences == nullptr) {
      if (first != last || chain_.stage(first).no_recompute) return std::nullopt;
      return PassedPart(first, last,
                        {{OperationKind::kForwardSave, first}, {OperationKind::kBackward, first}});
    }
    const auto ways = options_.sequences->Of(first - 1, last - 1);
    if (ways.empty()) return std::nullopt;
    // The fastest mostly, else one that needs less.
    size_t way = ways.size() - 1;
    if (OneIn(3)) way -= Below(std::min<size_t>(ways.size(), 4));
    if (OneIn(6)) way = Below(ways.size());
    std::vector<Operation> again;
    options_.sequences->Append(first - 1, last - 1, options_.sequences->IndexOf(ways[way]), &again);
    return PassedPart(first, last, std::move(again));
  }

  // Remembers what it takes out.
  bool Replace(size_t p, size_t count, std::vector<ForwardPart> with) {
    const auto at = state_.parts.begin() + static_cast<std::ptrdiff_t>(p);
    const auto end = at + static_cast<std::ptrdiff_t>(count);
    replaced_ = {p, with.size(), {std::make_move_iterator(at), std::make_move_iterator(end)}};
    state_.parts.erase(at, end);
    state_.parts.insert(state_.parts.begin() + static_cast<std::ptrdiff_t>(p),
                        std::make_move_iterator(with.begin()), std::make_move_iterator(with.end()));
    return true;
  }

  bool Merge(size_t p) {
    if (p + 1 >= state_.parts.size()) return false;
    std::optional<ForwardPart> part = Passed(state_.parts[p].first, state_.parts[p + 1].last);
    return part.has_value() && Replace(p, 2, {*part});
  }

  bool Split(size_t p) {
    const ForwardPart old = state_.parts[p];
    const int length = old.last - old.first + 1;
    if (old.saved || length < 2) return false;
    const int middle = old.first + static_cast<int>(Below(static_cast<size_t>(length - 1)));
    std::vector<ForwardPart> with;
    for (const auto& [first, last] :
         {std::pair(old.first, middle), std::pair(middle + 1, old.last)}) {
      std::optional<ForwardPart> part;
      if (first == last && OneIn(2)) {
        part = SavedPart(first);
      } else {
        part = Passed(first, last);
      }
      if (!part.has_value()) return false;
      with.push_back(*part);
    }
    return Replace(p, 1, std::move(with));
  }

  // A saved stage is passed through and run again, or the reverse for all stages of a part.
  bool Turn(size_t p) {
    const ForwardPart old = state_.parts[p];
    if (old.saved) {
      std::optional<ForwardPart> part = Passed(old.first, old.last);
      return part.has_value() && Replace(p, 1, {*part});
    }
    if (old.last - old.first > 8) return false;
    std::vector<ForwardPart> with;
    for (int l = old.first; l <= old.last; ++l) with.push_back(SavedPart(l));
    return Replace(p, 1, std::move(with));
  }

  // The border to the next part moves by a stage.
  bool Shift(size_t p) {
    if (p + 1 >= state_.parts.size()) return false;
    const ForwardPart left = state_.parts[p];
    const ForwardPart right = state_.parts[p + 1];
    const int border = left.last + (OneIn(2) ? 1 : -1);
    std::vector<ForwardPart> with;
    for (const auto& [first, last, saved] : {std::tuple(left.first, border, left.saved),
                                             std::tuple(border + 1, right.last, right.saved)}) {
      if (first > last) continue;
      std::optional<ForwardPart> part;
      if (saved && first == last) {
        part = SavedPart(first);
      } else {
        part = Passed(first, last);
      }
      if (!part.has_value()) return false;
      with.push_back(*part);
    }
    return Replace(p, 2, std::move(with));
  }

  // Another way to run again.
  bool Vary(size_t p) {
    const ForwardPart& old = state_.parts[p];
    if (old.saved || old.first == old.last) return false;
    std::optional<ForwardPart> part = Passed(old.first, old.last);
    return part.has_value() && Replace(p, 1, {*part});
  }

  // The last stage of a part is saved, and what it saves moves to the host; or the reverse.
  bool SaveAndMove(size_t p) {
    const ForwardPart old = state_.parts[p];
    if (old.last >= loss_ || !moves_) return false;
    std::vector<ForwardPart> with;
    if (old.saved) {
      std::optional<ForwardPart> part = Passed(old.first, old.last);
      if (!part.has_value()) return false;
      with.push_back(*part);
    } else {
      if (old.first < old.last) {
        std::optional<ForwardPart> part = Passed(old.first, old.last - 1);
        if (!part.has_value()) return false;
        with.push_back(*part);
      }
      with.push_back(SavedPart(old.last));
    }
    GapChoice choice;
    choice.moved = !old.saved;
    Set(old.last, 0, choice);
    return Replace(p, 1, std::move(with));
  }

  const Chain& chain_;
  const ImproveOptions& options_;
  const SolveContext& context_;
  const int loss_;
  const bool moves_;
  TransferPlacement placement_;
  ComputeSequence fixed_;
  PartedSequence joined_;         // of the state's parts
  PartedSequence joined_before_;  // of those before the last move of parts
  std::vector<GapChoice> choices_;
  std::vector<size_t> seen_;
  std::mt19937 random_;

  State state_;
  double seconds_ = 0;
  State best_;
  double best_seconds_ = 0;
  int64_t spent_ = 0;

  struct Undo {
    size_t value;
    size_t ordinal;
    GapChoice choice;
  };
  std::vector<Undo> undo_;
  // What the last move of parts took out, and how many it put there.
  struct Replaced {
    size_t at = 0;
    size_t with = 0;
    std::vector<ForwardPart> parts;
  };
  Replaced replaced_;
};

}  // namespace

absl::StatusOr<std::optional<Schedule>> Improve(const Chain& chain, const Platform& platform,
                                                const Schedule& schedule,
                                                const ImproveOptions& options,
                                                const SolveContext& context) {
  const absl::StatusOr<Simulation> before = Simulate(chain, platform, schedule);
  if (!before.ok()) return std::optional<Schedule>();
  Search search(chain, platform, options, context);
  if (!search.Start(schedule)) return std::optional<Schedule>();
  RETURN_IF_ERROR(search.Run());
  const double worth = before->prediction.makespan_seconds * (1 - kWorthwhile);
  if (search.best_seconds() >= worth) return std::optional<Schedule>();
  return search.BestSchedule();
}

}  // namespace stowage
