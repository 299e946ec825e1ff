// One stage after the other, like the profiler: a stage's input is the only value that outlives
// its measurements. What its operators take is measured in forwards that keep all results.
#include "client/torch/profile/save_options.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/torch/base/torch_guarded.h"
#include "client/torch/profile/stage_timer.h"
#include "client/torch/profile/state_backup.h"
#include "client/torch/profile/step_times.h"
#include "client/torch/stages/stage_probe.h"
#include "solver/algorithms/kept_operators.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr double kLeastGain = 0.05;  // of the bytes that a stage's own way saves

// Of a stage that cannot be saved by an option, or has no memory to keep all results at once: that
// is no error of a profile.
bool IsUnsuited(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ||
         absl::IsResourceExhausted(status);
}

class OptionFinder {
 public:
  OptionFinder(TorchStages* stages, Device* device, MemoryMeter* meter,
               const SaveOptionsSearch& search, Chain* chain)
      : stages_(*stages),
        probe_(stages),
        timer_(stages, device, meter),
        search_(search),
        chain_(*chain) {}

  absl::Status Run() {
    RETURN_IF_ERROR(timer_.Begin());
    for (int l = 1; l <= stages_.length(); ++l) {
      if (search_.progress) search_.progress(l);
      input_ = probe_.Output(l - 1);
      RETURN_IF_ERROR(FindOptions(l));
      probe_.SetOutput(l - 1, std::exchange(input_, {}));
      RETURN_IF_ERROR(timer_.Forward({.stage = l, .kind = OperationKind::kForwardCheckpoint}));
      probe_.SetOutput(l - 1, {});
    }
    return absl::OkStatus();
  }

 private:
  struct Option {
    KeptOperators operators;
    SaveOption costs;  // the backward's seconds: beyond those of the stage's own way, see Measure()
  };
  // A stage that was measured, by all that its options depend on.
  struct Known {
    std::vector<OperatorCost> operators;  // without seconds
    Stage stage;                          // without name, times and options
    std::vector<bool> differentiable;     // of its input
    std::vector<Option> options;
  };
  struct Measured {
    int64_t saved_bytes = 0;
    int64_t overhead_bytes = 0;
    int64_t forward_bytes = 0;  // of the forward, at most
    OperationTimes times;       // of forward and backward
  };

  Stage& stage(int l) { return chain_.stages[static_cast<size_t>(l) - 1]; }

  bool CanHaveOptions(int l) {
    const Stage& stage = this->stage(l);
    return !stage.no_recompute && !stage.input_unread && !stage.graph.has_value() &&
           stage.saved_bytes > stage.output_bytes;
  }

  absl::Status FindOptions(int l) {
    std::vector<Option> options;
    if (CanHaveOptions(l)) {
      absl::StatusOr<std::vector<Option>> found = OptionsOf(l);
      if (!found.ok() && !IsUnsuited(found.status())) return found.status();
      if (found.ok()) options = *std::move(found);
    }
    std::vector<KeptOperators> operators;
    for (Option& option : options) {
      operators.push_back(std::move(option.operators));
      option.costs.backward_seconds += stage(l).backward_seconds;
      stage(l).save_options.push_back(std::move(option.costs));
    }
    stages_.SetSaveOptions(l, std::move(operators));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Option>> OptionsOf(int l) {
    const std::vector<KeptOperators> given = stages_.stage(l).save_options;
    if (!given.empty()) {
      std::vector<Option> options;
      for (const KeptOperators& operators : given) options.push_back({operators, {}});
      return Measure(l, std::move(options));
    }
    Known known;
    ASSIGN_OR_RETURN(const std::vector<OperatorCost> costs, MeasureOperators(l));
    known.operators = costs;
    for (OperatorCost& cost : known.operators) cost.seconds = 0;
    known.stage = stage(l);
    known.stage.name.clear();
    known.stage.forward_seconds = known.stage.backward_seconds = 0;
    known.stage.replay_seconds.reset();
    known.differentiable = input_.differentiable;
    const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& other) {
      return other.operators == known.operators && other.stage == known.stage &&
             other.differentiable == known.differentiable;
    });
    if (found != known_.end()) return found->options;
    const auto most_bytes = static_cast<int64_t>(
        (1 - kLeastGain) * static_cast<double>(stage(l).saved_bytes - stage(l).output_bytes));
    std::vector<Option> options;
    for (KeptChoice& choice : ChooseKept(costs, most_bytes, static_cast<size_t>(search_.count))) {
      options.push_back(
          {{.numbers = std::move(choice.operators)}, {.name = std::move(choice.name)}});
    }
    if (!options.empty()) {
      ASSIGN_OR_RETURN(known.options, Measure(l, std::move(options)));
    }
    known_.push_back(std::move(known));
    return known_.back().options;
  }

  // The quickest of some forwards counts: noise only ever lengthens such short times.
  absl::StatusOr<std::vector<OperatorCost>> MeasureOperators(int l) {
    constexpr int kForwards = 3;
    std::vector<OperatorCost> costs;
    for (int run = 0; run < kForwards; ++run) {
      probe_.SetOutput(l - 1, input_);
      std::vector<OperatorCost> once;
      probe_.MeasureOperators(l, &once);
      const absl::Status status = timer_.Forward({.stage = l});
      probe_.MeasureOperators(l, nullptr);
      probe_.SetOutput(l, {});
      RETURN_IF_ERROR(status);
      if (run == 0) costs = once;
      if (costs.size() != once.size()) {
        return absl::FailedPreconditionError("calls other operators in each forward");
      }
      for (size_t i = 0; i < costs.size(); ++i) {
        costs[i].seconds = std::min(costs[i].seconds, once[i].seconds);
      }
    }
    return costs;
  }

  absl::StatusOr<Measured> MeasureOnce(int l, int save_option) {
    probe_.SetOutput(l - 1, input_);
    Measured measured;
    RETURN_IF_ERROR(timer_.Forward({.stage = l, .save_option = save_option}));
    measured.saved_bytes = probe_.ValueBytes(l);
    measured.forward_bytes = timer_.new_bytes();
    // Counted like the stage's own way.
    if (search_.stays_on_device) measured.saved_bytes -= probe_.passed_bytes(l);
    measured.saved_bytes = std::max(measured.saved_bytes, stage(l).output_bytes);
    RETURN_IF_ERROR(timer_.Backward(l));
    measured.overhead_bytes = timer_.new_bytes() - probe_.GradientBytes(l - 1);
    probe_.SetGradients(l - 1, {});
    const OperationTimes& forward = timer_.last_forward();
    const OperationTimes& backward = timer_.last_backward();
    measured.times = {forward.host_seconds + backward.host_seconds,
                      forward.device_seconds + backward.device_seconds};
    return measured;
  }

  // Runs the stage's own way and all options in turn, so that a change of the machine's speed
  // affects them equally. A chain has one time of a stage's forwards, so what an option's forward
  // takes longer, since it keeps results, counts in the backward that follows it.
  absl::StatusOr<std::vector<Option>> Measure(int l, std::vector<Option> options) {
    std::vector<KeptOperators> operators;
    for (const Option& option : options) operators.push_back(option.operators);
    stages_.SetSaveOptions(l, operators);
    std::vector<OperationRuns> both(options.size() + 1);
    std::vector<int64_t> forward_bytes(options.size(), stage(l).OutputNeedBytes());
    for (int run = -search_.warmups; run < search_.repeats; ++run) {
      for (size_t k = 0; k <= options.size(); ++k) {
        ASSIGN_OR_RETURN(const Measured measured, MeasureOnce(l, static_cast<int>(k)));
        if (run < 0) continue;
        both[k].push_back(measured.times);
        if (k == 0) continue;
        SaveOption& costs = options[k - 1].costs;
        costs.saved_bytes = std::max(costs.saved_bytes, measured.saved_bytes);
        costs.backward_overhead_bytes =
            std::max(costs.backward_overhead_bytes, measured.overhead_bytes);
        forward_bytes[k - 1] = std::max(forward_bytes[k - 1], measured.forward_bytes);
      }
    }
    const std::vector<OperationTimes> medians =
        PooledMedians(both, std::vector<std::string>(both.size()));
    for (size_t k = 1; k <= options.size(); ++k) {
      SaveOption& costs = options[k - 1].costs;
      costs.backward_seconds = std::max(0.0, medians[k].device_seconds - medians[0].device_seconds);
      costs.save_overhead_bytes = std::max<int64_t>(forward_bytes[k - 1] - costs.saved_bytes, 0);
    }
    return Worthwhile(std::move(options), stage(l).saved_bytes);
  }

  static std::vector<Option> Worthwhile(std::vector<Option> options, int64_t own_bytes) {
    std::sort(options.begin(), options.end(), [](const Option& one, const Option& other) {
      return one.costs.saved_bytes < other.costs.saved_bytes;
    });
    const double most_bytes = (1 - kLeastGain) * static_cast<double>(own_bytes);
    std::vector<Option> kept;
    for (Option& option : options) {
      if (static_cast<double>(option.costs.saved_bytes) > most_bytes) continue;
      if (!kept.empty() && option.costs.backward_seconds >= kept.back().costs.backward_seconds) {
        continue;
      }
      kept.push_back(std::move(option));
    }
    std::reverse(kept.begin(), kept.end());
    return kept;
  }

  TorchStages& stages_;
  StageProbe probe_;
  StageTimer timer_;
  const SaveOptionsSearch search_;
  Chain& chain_;
  StageOutput input_;  // of the stage that is measured
  std::vector<Known> known_;
};

}  // namespace

absl::Status FindSaveOptions(TorchStages* stages, Device* device, MemoryMeter* meter,
                             const SaveOptionsSearch& search, Chain* chain) {
  std::optional<StateBackup> backup;
  absl::Status status = TorchGuarded([&] {
    backup.emplace(*stages);
    backup->SetGradientsToZero();
    return OptionFinder(stages, device, meter, search, chain).Run();
  });
  // Also after an error: enqueued work uses the stages.
  status.Update(device->Synchronize());
  stages->Abandon();
  if (!backup.has_value()) return status;
  status.Update(TorchGuarded([&backup] {
    backup->Restore();
    return absl::OkStatus();
  }));
  return status;
}

}  // namespace stowage
