#include "tests/support/literal_pofo.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

namespace stowage {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr double kUnknown = -1;

double Positive(double z) { return std::max(z, 0.0); }  // [z]+

// Memory in slots: amounts are integers and index the tables.
class InSlots {
 public:
  InSlots(int64_t memory_bytes, int slots)
      : memory_bytes_(static_cast<double>(memory_bytes)), slots_(slots) {}

  double memory() const { return slots_; }
  double Size(int64_t bytes) const {
    return std::ceil(static_cast<double>(bytes) * slots_ / memory_bytes_);
  }
  double Rate(double bytes_per_second) const { return bytes_per_second * slots_ / memory_bytes_; }
  // Subtract a small epsilon: rounding must not turn an integer into the next one.
  static double Round(double amount) { return std::ceil(amount - 1e-9); }

  // By row, a block of entries for the amounts 0..slots, allocated on first use.
  class Table {
   public:
    Table(const InSlots& unit, int rows, int axes)
        : levels_(static_cast<size_t>(unit.slots_) + 1),
          row_size_(axes == 2 ? levels_ * levels_ : levels_ * levels_ * levels_),
          rows_(static_cast<size_t>(rows)) {}

    double& At(int row, double a, double b, double c = 0) {
      std::vector<double>& entries = rows_[static_cast<size_t>(row)];
      if (entries.empty()) entries.assign(row_size_, kUnknown);
      return entries[(static_cast<size_t>(c) * levels_ + static_cast<size_t>(a)) * levels_ +
                     static_cast<size_t>(b)];
    }

   private:
    size_t levels_;
    size_t row_size_;
    std::vector<std::vector<double>> rows_;
  };

 private:
  double memory_bytes_;
  int slots_;
};

// Memory in bytes and fractions of bytes.
class InBytes {
 public:
  explicit InBytes(int64_t memory_bytes) : memory_(static_cast<double>(memory_bytes)) {}

  double memory() const { return memory_; }
  static double Size(int64_t bytes) { return static_cast<double>(bytes); }
  static double Rate(double bytes_per_second) { return bytes_per_second; }
  static double Round(double amount) { return amount; }

  class Table {
   public:
    Table(const InBytes& /*unit*/, int /*rows*/, int /*axes*/) {}

    double& At(int row, double a, double b, double c = 0) {
      return entries_.try_emplace({row, a, b, c}, kUnknown).first->second;
    }

   private:
    std::map<std::tuple<int, double, double, double>, double> entries_;
  };

 private:
  double memory_;
};

// Symbols: M memory, βo and βp the bandwidths, I the input of a part, all in the chosen unit; m_F0,
// m_all and m_B the needs of an operation without the kept values.
template <class Unit>
class Program {
 public:
  Program(const Chain& chain, const Platform& platform, const Unit& unit)
      : chain_(chain),
        unit_(unit),
        loss_(chain.length() + 1),
        memory_(unit.memory()),
        offload_rate_(unit.Rate(platform.offload_bytes_per_second)),
        prefetch_rate_(unit.Rate(platform.prefetch_rate())),
        forward_(unit, 2 * (loss_ + 1), 3),
        backward_(unit, (loss_ + 1) * (loss_ + 1), 2) {
    for (int l = 0; l <= loss_; ++l) {
      const Stage& stage = chain.stage(std::max(l, 1));  // value 0 has only output and gradient
      u_f_.push_back(stage.forward_seconds);
      u_b_.push_back(stage.backward_seconds);
      a_.push_back(unit.Size(chain.output_bytes(l)));
      saved_.push_back(unit.Size(stage.saved_bytes));
      delta_.push_back(unit.Size(chain.gradient_bytes(l)));
      o_f_.push_back(unit.Size(stage.forward_overhead_bytes));
      o_s_.push_back(unit.Size(stage.save_overhead_bytes.value_or(stage.forward_overhead_bytes)));
      o_b_.push_back(unit.Size(stage.backward_overhead_bytes));
    }
  }

  std::optional<LiteralPofo> Run() {
    const State start{.i = 1, .x = 0, .kept = 0, .delta_f = 0, .delta_b = 0};
    LiteralPofo answer;
    answer.seconds = OC(start);
    if (answer.seconds == kNone) return std::nullopt;
    Append(start, &answer);
    return answer;
  }

 private:
  // A state of the forward phase: stages i..L+1 remain.
  struct State {
    int i = 0;
    int x = 0;           // the input of stage i is a^(i-1) (0) or ā^(i-1) (1)
    double kept = 0;     // A: inputs of earlier parts that stay on the device
    double delta_f = 0;  // ΔF: bytes of the others still to be offloaded
    double delta_b = 0;  // ΔB: bytes of the others to prefetch before the backward of stage i-1
  };
  struct Choice {
    double seconds = kNone;
    LiteralPofoPart part;
    State next;
  };
  struct Recomputation {
    double seconds = kNone;
    int checkpoint = 0;      // i', or 0: the first stage is saved
    double delta_after = 0;  // Δ after the forwards of the first stage or stages
  };

  // The wait until `excess` has been copied.
  static double Wait(double excess, double rate) { return excess > 0 ? excess / rate : 0; }
  // What is left of `amount` after so many seconds.
  double Left(double amount, double rate, double seconds) const {
    return Positive(unit_.Round(amount - rate * seconds));
  }

  double Forget(int k, bool first) const { return (first ? 0 : a_[k - 1]) + a_[k] + o_f_[k]; }
  double SaveAll(int k) const { return saved_[k] + o_s_[k]; }
  double Backward(int k) const { return saved_[k] + delta_[k] + delta_[k - 1] + o_b_[k]; }
  double Input(const State& s) const { return s.x == 1 ? saved_[s.i - 1] : a_[s.i - 1]; }

  bool MayOffload(int value) const {
    const bool fixed = value > 0 && chain_.stage(value).no_offload;
    return offload_rate_ > 0 && prefetch_rate_ > 0 && !fixed;
  }

  // OC_x(i, A, ΔF, ΔB), equation (1).
  double OC(const State& s) {
    const int row = 2 * s.i + s.x;
    if (forward_.At(row, s.delta_f, s.delta_b, s.kept) == kUnknown) {
      const double seconds = Best(s).seconds;
      forward_.At(row, s.delta_f, s.delta_b, s.kept) = seconds;
    }
    return forward_.At(row, s.delta_f, s.delta_b, s.kept);
  }

  Choice Best(const State& s) {
    if (s.i == loss_) return Loss(s);
    Choice best;
    TrySave(s, &best);
    TryCheckpoint(s, &best);
    return best;
  }

  // The time of both phases for a part, waits included.
  struct Duration {
    double forward = 0;
    double backward = 0;
  };

  // F_all of stage i; infinite if it does not fit.
  Duration Save(const State& s) const {
    const double free = memory_ - s.kept - Input(s);
    if (SaveAll(s.i) > free || Backward(s.i) > free) return {kNone, kNone};
    return {u_f_[s.i] + Wait(SaveAll(s.i) - free + s.delta_f, offload_rate_),
            u_b_[s.i] + Wait(Backward(s.i) - free + s.delta_b, prefetch_rate_)};
  }

  // B.1, case 1.
  void TrySave(const State& s, Choice* best) {
    const Duration spent = Save(s);
    if (spent.forward == kNone) return;
    TryBothInputs(s, {s.i, s.i, LiteralPofoPart::Kind::kSave, false}, spent, best);
  }

  // B.1, case 2.
  void TryCheckpoint(const State& s, Choice* best) {
    const double free = memory_ - s.kept - Input(s);
    double sweep_seconds = 0;
    double most = -kNone;  // max over k of m_F0(k) - βo (what the sweep takes until k)
    for (int j = s.i; j < loss_ && !chain_.stage(j).no_recompute; ++j) {
      const double needed = Forget(j, j == s.i);
      if (needed > free) return;
      most = std::max(most, needed - offload_rate_ * sweep_seconds);
      sweep_seconds += u_f_[j];
      const double recomputation = C(s.i, j, s.kept + Input(s), s.delta_b);
      if (recomputation == kNone) continue;
      const double idle = Wait(most - free + s.delta_f, offload_rate_);
      TryBothInputs(s, {s.i, j, LiteralPofoPart::Kind::kCheckpoint, false},
                    {sweep_seconds + idle, recomputation}, best);
    }
  }

  // Table 2. The copy out may overlap the part's forwards; the copy back must be complete when the
  // part's backward starts.
  void TryBothInputs(const State& s, LiteralPofoPart part, Duration spent, Choice* best) {
    for (const bool offload : {false, true}) {
      if (offload && !MayOffload(s.i - 1)) continue;
      part.offloads_input = offload;
      const double leaving = offload ? Input(s) : 0;
      const State next = {
          .i = part.last + 1,
          .x = part.kind == LiteralPofoPart::Kind::kSave ? 1 : 0,
          .kept = s.kept + Input(s) - leaving,
          .delta_f = Left(s.delta_f + leaving, offload_rate_, spent.forward),
          .delta_b = Left(s.delta_b, prefetch_rate_, spent.backward) + leaving,
      };
      const double seconds = spent.forward + spent.backward + OC(next);
      if (seconds < best->seconds) *best = {seconds, part, next};
    }
  }

  // B.2. The input of the loss stays on the device, since its backward needs it first.
  Choice Loss(const State& s) const {
    const Duration spent = Save(s);
    if (spent.forward == kNone) return {};
    Choice choice;
    choice.seconds = spent.forward + spent.backward +
                     Wait(Left(s.delta_f, offload_rate_, spent.forward), offload_rate_) +
                     Wait(Left(s.delta_b, prefetch_rate_, spent.backward), prefetch_rate_);
    return choice;
  }

  // C_Δ(i, j, A, Δ), equation (2); A includes the part's input.
  double C(int i, int j, double kept, double delta) {
    const int row = i * (loss_ + 1) + j;
    if (backward_.At(row, kept, delta) == kUnknown) {
      const double seconds = Best(i, j, kept, delta).seconds;
      backward_.At(row, kept, delta) = seconds;
    }
    return backward_.At(row, kept, delta);
  }

  Recomputation Best(int i, int j, double kept, double delta) {
    if (i == j) return Single(i, kept, delta);
    Recomputation best;
    TrySave(i, j, kept, delta, &best);
    TryCheckpoint(i, j, kept, delta, &best);
    return best;
  }

  // B.3, initialization.
  Recomputation Single(int i, double kept, double delta) const {
    const double free = memory_ - kept;
    const double needed = delta_[i] + SaveAll(i);
    if (needed > free || Backward(i) > free) return {};
    const double most = std::max(needed - prefetch_rate_ * u_b_[i], Backward(i));
    return {u_f_[i] + u_b_[i] + Wait(most - free + delta, prefetch_rate_), 0, 0};
  }

  // B.3, case 1. From the end backwards, as Δ shrinks: the backward, what is between, the forward.
  void TrySave(int i, int j, double kept, double delta, Recomputation* best) {
    const double free = memory_ - kept;
    const double needed = delta_[j] + SaveAll(i);
    if (needed > free || Backward(i) > free) return;
    const double backward = u_b_[i] + Wait(Backward(i) - free + delta, prefetch_rate_);
    const double delta1 = Left(delta, prefetch_rate_, backward);
    const double inner = C(i + 1, j, kept + saved_[i], delta1);
    if (inner == kNone) return;
    const double delta2 = Left(delta1, prefetch_rate_, inner);
    const double seconds =
        u_f_[i] + Wait(needed - free + delta2, prefetch_rate_) + inner + backward;
    if (seconds < best->seconds) *best = {seconds, 0, delta1};
  }

  // B.3, case 2. From the end backwards: [i..i'], [i'+1..j], the sweep.
  void TryCheckpoint(int i, int j, double kept, double delta, Recomputation* best) {
    const double free = memory_ - kept;
    double sweep_seconds = 0;
    double most = -kNone;  // max over k of m_F0(k) - βp (what the sweep takes after k)
    for (int k = i; k < j; ++k) {
      const double needed = delta_[j] + Forget(k, k == i);
      if (needed > free) return;
      most = std::max(most - prefetch_rate_ * u_f_[k], needed);
      sweep_seconds += u_f_[k];
      const double left = C(i, k, kept, delta);
      if (left == kNone) continue;
      const double delta2 = Left(delta, prefetch_rate_, left);
      const double right = C(k + 1, j, kept + a_[k], delta2);
      if (right == kNone) continue;
      const double delta3 = Left(delta2, prefetch_rate_, right);
      const double seconds =
          sweep_seconds + Wait(most - free + delta3, prefetch_rate_) + right + left;
      if (seconds < best->seconds) *best = {seconds, k, delta2};
    }
  }

  // Reconstructs the choices by evaluating the minima again.
  void Append(const State& s, LiteralPofo* answer) {
    std::vector<Operation>& operations = answer->computation.operations;
    if (s.i == loss_) {
      operations.push_back({OperationKind::kForwardSave, loss_});
      operations.push_back({OperationKind::kBackward, loss_});
      return;
    }
    const auto [seconds, part, next] = Best(s);
    answer->parts.push_back(part);
    if (part.kind == LiteralPofoPart::Kind::kSave) {
      operations.push_back({OperationKind::kForwardSave, s.i});
      Append(next, answer);
      operations.push_back({OperationKind::kBackward, s.i});
    } else {
      AppendSweep(s.i, part.last, &operations);
      Append(next, answer);
      Append(s.i, part.last, s.kept + Input(s), s.delta_b, &operations);
    }
  }

  void Append(int i, int j, double kept, double delta, std::vector<Operation>* operations) {
    const Recomputation best = Best(i, j, kept, delta);
    if (best.checkpoint == 0) {
      operations->push_back({OperationKind::kForwardSave, i});
      if (i < j) Append(i + 1, j, kept + saved_[i], best.delta_after, operations);
      operations->push_back({OperationKind::kBackward, i});
    } else {
      const int k = best.checkpoint;
      AppendSweep(i, k, operations);
      Append(k + 1, j, kept + a_[k], best.delta_after, operations);
      Append(i, k, kept, delta, operations);
    }
  }

  static void AppendSweep(int i, int j, std::vector<Operation>* operations) {
    for (int k = i; k <= j; ++k) {
      operations->push_back(
          {k == i ? OperationKind::kForwardCheckpoint : OperationKind::kForwardDiscard, k});
    }
  }

  const Chain& chain_;
  const Unit unit_;
  const int loss_;  // L+1
  const double memory_;
  const double offload_rate_;                                            // units per second
  const double prefetch_rate_;                                           // in the unit a second
  std::vector<double> u_f_, u_b_, a_, saved_, delta_, o_f_, o_s_, o_b_;  // by stage from 0
  typename Unit::Table forward_;
  typename Unit::Table backward_;
};

}  // namespace

std::optional<LiteralPofo> LiteralPofoInSlots(const Chain& chain, const Platform& platform,
                                              int slots) {
  return Program(chain, platform, InSlots(platform.memory_bytes, slots)).Run();
}

std::optional<LiteralPofo> LiteralPofoInBytes(const Chain& chain, const Platform& platform) {
  return Program(chain, platform, InBytes(platform.memory_bytes)).Run();
}

}  // namespace stowage
