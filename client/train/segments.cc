#include "client/train/segments.h"

#include <ATen/ATen.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "client/lib/local_scheduler.h"
#include "client/torch/base/torch_guarded.h"
#include "client/torch/stages/replay.h"
#include "proto/service/results.h"
#include "solver/base/status_macros.h"
#include "solver/model/answer.h"
#include "solver/model/schedule.h"

namespace stowage {
namespace {

// What the first run of a segment leaves for the second.
struct Kept {
  at::Tensor input;
  RandomAndBuffers random;
};

class Segments {
 public:
  Segments(const Network& network, size_t count) : network_(network), count_(count) {}

  at::Tensor Step() {
    std::vector<Kept> kept;
    at::Tensor value = network_.input;
    {
      const at::NoGradGuard no_grad;
      for (size_t segment = 0; segment + 1 < count_; ++segment) {
        kept.push_back({value, RandomAndBuffers({}, network_.input.device())});
        value = Forward(segment, value);
      }
    }
    // Inputs of a network, such as tokens, have no gradient.
    if (count_ > 1) value.requires_grad_();
    const at::Tensor last_input = value;
    value = Forward(count_ - 1, std::move(value));
    const at::Tensor loss = network_.loss(value);
    value.reset();
    loss.backward();
    at::Tensor gradient = last_input.grad();
    for (size_t segment = count_ - 1; segment-- > 0; kept.pop_back()) {
      gradient = Backward(segment, &kept.back(), gradient);
    }
    return loss.detach();
  }

 private:
  at::Tensor Forward(size_t segment, at::Tensor value) const {
    const size_t stages = network_.stages.size();
    const size_t length = stages / count_;
    const size_t end = segment + 1 == count_ ? stages : (segment + 1) * length;
    for (size_t i = segment * length; i < end; ++i) value = network_.stages[i].forward(value);
    return value;
  }

  // Returns the gradient of the segment's input.
  at::Tensor Backward(size_t segment, Kept* kept, const at::Tensor& gradient) const {
    at::Tensor input = std::move(kept->input).detach();
    if (segment > 0) input.requires_grad_();
    RandomAndBuffers now({}, input.device());
    kept->random.Restore();
    const at::Tensor output = Forward(segment, input);
    now.Restore();
    output.backward(gradient);
    return input.grad();
  }

  const Network& network_;
  const size_t count_;
};

}  // namespace

absl::StatusOr<int> BestSegments(const Chain& chain, const Platform& platform) {
  ASSIGN_OR_RETURN(const SolveResult solved,
                   LocalScheduler({}).Solve({chain, platform, "periodic", {}}, {}));
  if (solved.answer->outcome == Outcome::kInfeasible) {
    return absl::ResourceExhaustedError("no number of segments fits");
  }
  int segments = 1;
  for (const Operation& operation : solved.answer->schedule.operations) {
    if (operation.kind == OperationKind::kBackward) break;
    if (operation.kind == OperationKind::kForwardCheckpoint) ++segments;
  }
  return segments;
}

absl::StatusOr<at::Tensor> SegmentsStep(const Network& network, int count) {
  at::Tensor loss;
  const absl::Status status = TorchGuarded([&] {
    loss = Segments(network, static_cast<size_t>(count)).Step();
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return loss;
}

}  // namespace stowage
