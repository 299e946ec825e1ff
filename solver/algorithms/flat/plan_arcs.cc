#include "solver/algorithms/flat/plan_arcs.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

namespace stowage {
namespace {

// Times are whole ticks, so that equal sums are equal in any order. All forwards together take some
// 2^50 of them.
int TickExponent(const Chain& chain) {
  constexpr int kBits = 50;
  double seconds = 0;
  for (const Stage& stage : chain.stages) seconds += stage.forward_seconds;
  return seconds > 0 ? kBits - std::ilogb(seconds) : 0;
}

int64_t TicksOf(double seconds, int exponent) {
  return std::llround(std::ldexp(seconds, exponent));
}

// What saving stage l by option k takes beside what the device keeps.
int64_t SaveNeed(const Chain& chain, int l, int k = 0) { return chain.stage(l).SaveNeedBytes(k); }

// What its backward takes, ā^l included.
int64_t BackwardNeed(const Chain& chain, int l, int k = 0) {
  return chain.stage(l).SavedBytes(k) + chain.gradient_bytes(l) + chain.gradient_bytes(l - 1) +
         chain.stage(l).BackwardOverheadBytes(k);
}

int64_t SavedNeed(const Chain& chain, int l, int k = 0) {
  return std::max(SaveNeed(chain, l, k), BackwardNeed(chain, l, k));
}

// How much longer its backward is.
int64_t LongerTicks(const Stage& stage, int k, int exponent) {
  return TicksOf(stage.BackwardSeconds(k) - stage.backward_seconds, exponent);
}

Arc SavedStage(const Chain& chain, int exponent, int l, int k) {
  return {.to = l + 1,
          .save_option = k,
          .need = SavedNeed(chain, l, k),
          .add = chain.stage(l).SavedBytes(k),
          .ticks = LongerTicks(chain.stage(l), k, exponent),
          .sweep_need = SaveNeed(chain, l, k),
          .backward_need = BackwardNeed(chain, l, k),
          .copies = chain.stage(l).no_offload ? 0 : 1};
}

// The segment from one stage on, extended stage by stage.
class Segment {
 public:
  Segment(const Chain& chain, int exponent, int first)
      : chain_(chain), exponent_(exponent), first_(first), last_(first - 1) {}

  void Extend() {
    const int l = ++last_;
    const Stage& stage = chain_.stage(l);
    const int64_t input = l == first_ ? 0 : chain_.output_bytes(l - 1);  // k has that of the first
    sweep_ = std::max(sweep_, input + stage.OutputNeedBytes());
    replay_ = std::max(replay_, saved_ + SaveNeed(chain_, l));
    backward_ = std::max(backward_, saved_ + BackwardNeed(chain_, l));
    saved_ += stage.saved_bytes;
    ticks_before_ = ticks_;
    ticks_ += TicksOf(stage.forward_seconds, exponent_);
  }

  // At most the need of the segment and of every longer one.
  int64_t LeastNeed() const { return std::max({sweep_, replay_, backward_}); }

  // The gradient behind the segment waits while it runs again. The last of its forwards is followed
  // by its backward, which makes it a replay.
  Arc ToArc() const {
    const int64_t replay = chain_.gradient_bytes(last_) + replay_;
    const double last_seconds = chain_.stage(last_).ReplaySeconds();
    return {.to = last_ + 1,
            .recomputed = true,
            .need = std::max({sweep_, replay, backward_}),
            .add = chain_.output_bytes(last_),
            .ticks = ticks_before_ + TicksOf(last_seconds, exponent_),
            .sweep_need = sweep_,
            .backward_need = std::max(replay, backward_),
            .copies = chain_.stage(last_).no_offload ? 0 : 1};
  }

 private:
  const Chain& chain_;
  const int exponent_;
  const int first_;
  int last_;
  int64_t saved_ = 0;
  int64_t sweep_ = 0;     // the most that a forward of the first sweep takes
  int64_t replay_ = 0;    // the most that one of the second run takes, without the gradient
  int64_t backward_ = 0;  // the most that a backward takes
  int64_t ticks_ = 0;
  int64_t ticks_before_ = 0;  // without the last stage
};

void Append(const Arc& next, Arc* whole) {
  whole->need = std::max(whole->need, whole->add + next.need);
  whole->sweep_need = std::max(whole->sweep_need, whole->add + next.sweep_need);
  whole->backward_need = std::max(whole->backward_need, whole->add + next.backward_need);
  const bool stays = next.copies == 0 || (whole->to != 0 && whole->copies == 0);
  whole->copies = stays ? 0 : whole->copies + next.copies;
  whole->to = next.to;
  whole->add += next.add;
  whole->ticks += next.ticks;
}

// The pieces one after the other.
Arc Joined(const Chain& chain, int exponent, const std::vector<Piece>& pieces) {
  Arc whole;
  for (const Piece& piece : pieces) {
    if (!piece.recomputed) {
      for (int l = piece.first; l <= piece.last; ++l) {
        const int option = std::min(piece.save_option, chain.stage(l).last_option());
        Append(SavedStage(chain, exponent, l, option), &whole);
      }
      continue;
    }
    Segment segment(chain, exponent, piece.first);
    for (int l = piece.first; l <= piece.last; ++l) segment.Extend();
    Append(segment.ToArc(), &whole);
  }
  return whole;
}

class ArcsOfChain : public PlanArcs {
 public:
  explicit ArcsOfChain(const Chain& chain) : chain_(chain), exponent_(TickExponent(chain)) {
    for (const Stage& stage : chain.stages) {
      tick_step_ = std::gcd(tick_step_, TicksOf(stage.forward_seconds, exponent_));
      tick_step_ = std::gcd(tick_step_, TicksOf(stage.ReplaySeconds(), exponent_));
      for (int k = 1; k <= stage.last_option(); ++k) {
        tick_step_ = std::gcd(tick_step_, LongerTicks(stage, k, exponent_));
      }
    }
    tick_step_ = std::max<int64_t>(1, tick_step_);
  }

  int64_t start_bytes() const override { return chain_.input_bytes; }
  int64_t end_need() const override { return SavedNeed(chain_, chain_.length() + 1); }
  int64_t end_sweep_need() const override { return SaveNeed(chain_, chain_.length() + 1); }
  int64_t end_backward_need() const override { return BackwardNeed(chain_, chain_.length() + 1); }
  double seconds_per_tick() const override { return std::ldexp(1.0, -exponent_); }
  int64_t tick_step() const override { return tick_step_; }

 protected:
  void AddSaved(int l, std::vector<Arc>* arcs) const {
    for (int k = 0; k <= chain_.stage(l).last_option(); ++k) {
      arcs->push_back(SavedStage(chain_, exponent_, l, k));
    }
  }

  const Chain chain_;
  const int exponent_;

 private:
  int64_t tick_step_ = 0;
};

class StageArcs final : public ArcsOfChain {
 public:
  StageArcs(const Chain& chain, int longest) : ArcsOfChain(chain), longest_(longest) {}

  int positions() const override { return chain_.length(); }
  int64_t most_arcs() const override {
    const int ways = chain_.has_save_options() ? 1 + kMaxSaveOptions : 1;
    return int64_t{longest_ + ways} * chain_.length();
  }

  void From(int position, int64_t room, std::vector<Arc>* arcs) const override {
    arcs->clear();
    AddSaved(position, arcs);
    Segment segment(chain_, exponent_, position);
    const int last = std::min(chain_.length(), position + longest_ - 1);
    for (int l = position; l <= last && !chain_.stage(l).no_recompute; ++l) {
      segment.Extend();
      if (segment.LeastNeed() > room) return;
      arcs->push_back(segment.ToArc());
    }
  }

  Piece PieceOf(int position, int to, bool recomputed) const override {
    return {position, to - 1, recomputed};
  }

 private:
  const int longest_;
};

class LayerArcs final : public ArcsOfChain {
 public:
  LayerArcs(const Chain& chain, const std::vector<Piece>& layers)
      : ArcsOfChain(chain), layers_(layers) {
    for (size_t i = 0; i < layers.size(); ++i) {
      for (const bool recomputed : {false, true}) {
        Arc arc =
            Joined(chain, exponent_,
                   SplitAtNoRecompute(chain, {{layers[i].first, layers[i].last, recomputed}}));
        arc.to = static_cast<int>(i) + 2;
        arc.recomputed = recomputed;
        arcs_.push_back(arc);
      }
    }
  }

  int positions() const override { return static_cast<int>(layers_.size()); }
  int64_t most_arcs() const override { return 2 * static_cast<int64_t>(layers_.size()); }

  void From(int position, int64_t, std::vector<Arc>* arcs) const override {
    const auto saved = arcs_.begin() + 2 * (position - 1);
    arcs->assign(saved, saved + 2);
  }

  Piece PieceOf(int position, int, bool recomputed) const override {
    const Piece& layer = layers_[static_cast<size_t>(position) - 1];
    return {layer.first, layer.last, recomputed};
  }

 private:
  const std::vector<Piece> layers_;
  std::vector<Arc> arcs_;  // of each layer, saved and recomputed
};

// The same with stages as positions: those of a saved layer each have their options.
class LayerStageArcs final : public ArcsOfChain {
 public:
  LayerStageArcs(const Chain& chain, const std::vector<Piece>& layers)
      : ArcsOfChain(chain), recomputed_(static_cast<size_t>(chain.length()) + 1) {
    for (const Piece& layer : layers) {
      Arc arc = Joined(chain, exponent_,
                       SplitAtNoRecompute(chain, {{layer.first, layer.last,
                                                   /*recomputed=*/true}}));
      arc.recomputed = true;
      recomputed_[static_cast<size_t>(layer.first)] = arc;
    }
  }

  int positions() const override { return chain_.length(); }
  int64_t most_arcs() const override { return int64_t{2 + kMaxSaveOptions} * chain_.length(); }

  void From(int position, int64_t, std::vector<Arc>* arcs) const override {
    arcs->clear();
    AddSaved(position, arcs);
    const std::optional<Arc>& layer = recomputed_[static_cast<size_t>(position)];
    if (layer.has_value()) arcs->push_back(*layer);
  }

  Piece PieceOf(int position, int to, bool recomputed) const override {
    return {position, to - 1, recomputed};
  }

 private:
  std::vector<std::optional<Arc>> recomputed_;  // by the first stage of a layer
};

}  // namespace

std::unique_ptr<const PlanArcs> ArcsOfStages(const Chain& chain, int longest) {
  return std::make_unique<StageArcs>(chain, longest);
}

std::unique_ptr<const PlanArcs> ArcsOfLayers(const Chain& chain, const std::vector<Piece>& layers) {
  if (chain.has_save_options()) return std::make_unique<LayerStageArcs>(chain, layers);
  return std::make_unique<LayerArcs>(chain, layers);
}

PlanCosts::PlanCosts(const Chain& chain) : chain_(chain), exponent_(TickExponent(chain)) {}

PlanCost PlanCosts::Of(const std::vector<Piece>& pieces) const {
  const Arc plan = Joined(chain_, exponent_, pieces);
  const int64_t loss = plan.add + SavedNeed(chain_, chain_.length() + 1);
  return {chain_.input_bytes + std::max(plan.need, loss), plan.ticks};
}

}  // namespace stowage
