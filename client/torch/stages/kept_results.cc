// Which tensors of an operator that is kept the value holds:
// - its outputs, which the rerun hands on;
// - what autograd saves within it and no argument has, such as a mask: only it could compute that.
// What autograd saves of an argument is a place that the rerun fills from its own argument, which
// another operator has computed again or a kept one has handed on. What autograd saves within an
// operator that is not kept, the rerun saves as any replay does. A place whose memory the value
// holds anyway is kept, too.
// The rerun's tensors require gradients where the forward's did, so that autograd saves the same;
// its graph is dropped.
#include "client/torch/stages/kept_results.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

void AddTensors(const c10::IValue& value, std::vector<at::Tensor>* tensors) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) tensors->push_back(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) AddTensors(element, tensors);
  }
}

// All tensors among the last `count` values.
std::vector<at::Tensor> TensorsOf(const c10::Stack& stack, size_t count) {
  std::vector<at::Tensor> tensors;
  for (size_t i = stack.size() - count; i < stack.size(); ++i) AddTensors(stack[i], &tensors);
  return tensors;
}

// "linear" of "aten::linear".
std::string NameOf(const c10::FunctionSchema& schema) {
  const std::string& name = schema.name();
  return absl::StartsWith(name, "aten::") ? name.substr(6) : name;
}

bool SharesMemory(const at::Tensor& one, const at::Tensor& other) {
  return one.has_storage() && other.has_storage() && StorageOf(one) == StorageOf(other);
}

bool IsPlain(const TensorView& view) { return !view.conjugated && !view.negated; }

// Where equal, two tensors of equal memory are equal.
bool HaveEqualGeometry(const TensorView& one, const TensorView& other) {
  return one.type == other.type && one.sizes == other.sizes && one.strides == other.strides &&
         one.conjugated == other.conjugated && one.negated == other.negated;
}

// The states of the generators that were drawn from since `before`; nullopt: none was.
std::optional<RandomStates> DrawnSince(const RandomStates& before, c10::Device device) {
  RandomStates now(device);
  now.ForgetUnchanged(before);
  if (now.empty()) return std::nullopt;
  return now;
}

void Synchronize(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.getStream(device).synchronize();
}

}  // namespace

bool KeptResults::Keeps(const std::string& name) const {
  return costs_ != nullptr || kept_.numbers.count(operators_.size() - 1) > 0 ||
         kept_.names.count(name) > 0;
}

// What has read an output would read in the rerun what the write has left.
KeptResults::Held* KeptResults::NoteReads(const c10::FunctionSchema& schema,
                                          const c10::Stack& stack) {
  Held* in_place = nullptr;
  const size_t count = schema.arguments().size();
  for (size_t i = 0; i < count; ++i) {
    const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
    const bool written = alias != nullptr && alias->isWrite();
    std::vector<at::Tensor> tensors;
    AddTensors(stack[stack.size() - count + i], &tensors);
    for (const at::Tensor& tensor : tensors) {
      if (!tensor.has_storage()) continue;
      const auto held = held_.find(StorageOf(tensor));
      if (held == held_.end()) continue;
      // Which is written does not matter where it is not the first: such operators are few.
      const bool first = i == 0 && schema.returns().size() == 1 && !held->second.read;
      TORCH_CHECK_WITH(ValueError, !written || first, NameOf(schema),
                       " works in place on a result that the save option keeps: make it work out "
                       "of place, or keep other operators");
      if (written) {
        in_place = &held->second;
      } else {
        held->second.read = true;
      }
    }
  }
  return in_place;
}

void KeptResults::Measure(const Run& run, const std::string& name,
                          const std::function<bool()>& operation) {
  if (costs_ == nullptr) {
    operation();
    return;
  }
  running_.name = name;
  Synchronize(run.device);
  const auto begin = std::chrono::steady_clock::now();
  running_.kept = operation();
  Synchronize(run.device);
  running_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  costs_->push_back(std::exchange(running_, {}));
}

void KeptResults::RunOperator(const Run& run, const c10::OperatorHandle& operation,
                              c10::Stack* stack) {
  const c10::FunctionSchema& schema = operation.schema();
  operators_.push_back(&schema);
  const Held* const in_place = NoteReads(schema, *stack);
  const std::string name = NameOf(schema);
  const bool keeps = !schema.is_mutable() && Keeps(name);
  Measure(run, name, [&] {
    if (in_place != nullptr) return RunInPlace(run, operation, stack);
    if (keeps) return RunKept(run, operation, stack);
    operation.callBoxed(stack);
    return false;
  });
  if (costs_ == nullptr || in_place == nullptr) return;
  OperatorCost& changed = (*costs_)[in_place->number];
  changed.seconds += std::exchange(costs_->back().seconds, 0);
  changed.inner_bytes += std::exchange(costs_->back().inner_bytes, 0);
}

// Runs an operator that is skipped with the one whose output it changes.
bool KeptResults::RunInPlace(const Run& run, const c10::OperatorHandle& operation,
                             c10::Stack* stack) {
  const std::vector<at::Tensor> arguments =
      TensorsOf(*stack, operation.schema().arguments().size());
  const auto settled = absl::MakeCleanup([this] {
    within_kept_ = false;
    pending_.clear();
  });
  const RandomStates before(run.device);
  const int64_t before_bytes = run.value.Bytes(/*granularity=*/1);
  within_kept_ = true;
  operation.callBoxed(stack);
  within_kept_ = false;
  Kept kept;
  kept.outputs.push_back(
      {.requires_grad = stack->back().toTensor().requires_grad(), .in_place = true});
  Resolve(run, arguments, &kept);
  kept.end_place = run.recorded.places();
  running_.inner_bytes = run.value.Bytes(/*granularity=*/1) - before_bytes;
  kept.random = DrawnSince(before, run.device);
  results_.emplace(operators_.size() - 1, std::move(kept));
  return false;
}

// Runs an operator and keeps its results, if they can be kept.
bool KeptResults::RunKept(const Run& run, const c10::OperatorHandle& operation, c10::Stack* stack) {
  const c10::FunctionSchema& schema = operation.schema();
  const std::vector<at::Tensor> arguments = TensorsOf(*stack, schema.arguments().size());
  const auto settled = absl::MakeCleanup([this] {
    within_kept_ = false;
    pending_.clear();
  });
  std::optional<RandomStates> before;  // no rerun follows a measurement
  if (costs_ == nullptr) before.emplace(run.device);
  within_kept_ = true;
  operation.callBoxed(stack);
  within_kept_ = false;
  const auto can_keep = [&](const c10::IValue& output) {
    if (!output.isTensor()) return false;
    const at::Tensor& tensor = output.toTensor();
    if (!tensor.defined()) return true;
    return IsOnDevice(tensor, run.device) && tensor.layout() == at::kStrided &&
           !run.is_elsewhere(tensor) &&
           std::none_of(arguments.begin(), arguments.end(),
                        [&](const at::Tensor& argument) { return SharesMemory(argument, tensor); });
  };
  const size_t outputs = schema.returns().size();
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(outputs);
  if (!std::all_of(first, stack->end(), can_keep)) {
    for (const Pending& pending : pending_) {
      if (run.is_elsewhere(pending.tensor) || run.value.Holds(pending.tensor)) {
        run.recorded.Keep(pending.place, run.save(pending.tensor));
      } else {
        end_ = operators_.size() + 1;
      }
    }
    return false;
  }
  Kept kept;
  const int64_t before_bytes = run.value.Bytes(/*granularity=*/1);
  // First, so that an output which autograd saves counts in what is kept where no rerun reads it.
  Resolve(run, arguments, &kept);
  const int64_t inner_bytes = run.value.Bytes(/*granularity=*/1) - before_bytes;
  for (auto output = first; output != stack->end(); ++output) {
    const at::Tensor& tensor = output->toTensor();
    kept.outputs.emplace_back();
    if (!tensor.defined()) continue;
    kept.outputs.back() = {run.hold(tensor), tensor.requires_grad()};
    held_.insert_or_assign(StorageOf(tensor), Held{operators_.size() - 1});
  }
  running_.inner_bytes = inner_bytes;
  running_.output_bytes = run.value.Bytes(/*granularity=*/1) - before_bytes - inner_bytes;
  kept.end_place = run.recorded.places();
  if (before.has_value()) kept.random = DrawnSince(*before, run.device);
  results_.emplace(operators_.size() - 1, std::move(kept));
  return true;
}

// Decides for each tensor that autograd saved within the operator.
void KeptResults::Resolve(const Run& run, const std::vector<at::Tensor>& arguments, Kept* kept) {
  for (const Pending& pending : pending_) {
    const TensorView view = ViewOf(pending.tensor, 0);
    const bool elsewhere = run.is_elsewhere(pending.tensor);
    const auto found =
        std::find_if(arguments.begin(), arguments.end(), [&](const at::Tensor& argument) {
          return SharesMemory(argument, pending.tensor) && argument.scalar_type() == view.type &&
                 IsPlain(ViewOf(argument, 0));
        });
    const bool is_part = !elsewhere && found != arguments.end() && IsPlain(view);
    running_.saves_argument = running_.saves_argument || is_part;
    if (!is_part || run.value.Holds(pending.tensor)) {
      run.recorded.Keep(pending.place, run.save(pending.tensor));
    } else {
      end_ = operators_.size();
      kept->parts.emplace(pending.place, Part{static_cast<size_t>(found - arguments.begin()),
                                              ViewOf(*found, 0), view});
    }
  }
}

SavedTensor KeptResults::Save(const Run& run, const at::Tensor& tensor) {
  const size_t place = run.recorded.places();
  SavedTensor saved = run.recorded.AddPlace(tensor);
  const bool elsewhere = run.is_elsewhere(tensor);
  running_.saves = running_.saves || !elsewhere;
  if (within_kept_) {
    pending_.push_back({place, tensor});
  } else if (elsewhere || run.value.Holds(tensor)) {
    run.recorded.Keep(place, run.save(tensor));
  } else {
    end_ = operators_.size() + 1;  // it may be saved after that operator, by the stage's own code
  }
  return saved;
}

void KeptResults::EndForward(const Run& run) {
  // The last place is filled from an operator's arguments: its own outputs are not handed on.
  for (auto& [number, kept] : results_) {
    if (number + 1 >= end_) kept.outputs.clear();
  }
  run.value.DropUnread();
}

void KeptResults::RerunOperator(const Run& run, const c10::OperatorHandle& operation,
                                c10::Stack* stack) {
  // The stage may still run: it has caught the exception.
  if (run.recorded.ended()) return operation.callBoxed(stack);
  const size_t number = next_++;
  const c10::FunctionSchema& schema = operation.schema();
  if (number >= operators_.size() || operators_[number] != &schema) {
    run.recorded.EndBy(absl::StrCat(
        "calls ", NameOf(schema), " as operator ", number + 1, ", where its first run ",
        number < operators_.size() ? absl::StrCat("called ", NameOf(*operators_[number]))
                                   : "called none"));
  }
  const auto kept = results_.find(number);
  if (kept == results_.end()) return operation.callBoxed(stack);
  HandOn(run, kept->second, schema.arguments().size(), stack);
}

// Fills the places of a kept operator, and replaces its arguments by its outputs.
void KeptResults::HandOn(const Run& run, const Kept& kept, size_t arguments,
                         c10::Stack* stack) const {
  const std::vector<at::Tensor> tensors = TensorsOf(*stack, arguments);
  while (run.recorded.next() < kept.end_place) {
    if (run.recorded.next_is_kept()) {
      run.recorded.Pass();
      continue;
    }
    const Part& part = kept.parts.at(run.recorded.next());
    const TensorView now =
        part.argument < tensors.size() ? ViewOf(tensors[part.argument], 0) : TensorView();
    if (!HaveEqualGeometry(now, part.argument_view)) {
      run.recorded.EndBy("passes another argument to an operator than its first run");
    }
    const int64_t offset = part.view.offset - part.argument_view.offset + now.offset;
    const at::Tensor tensor =
        tensors[part.argument].detach().as_strided(part.view.sizes, part.view.strides, offset);
    run.recorded.Fill(tensor, run.save(tensor));
  }
  if (kept.random.has_value()) kept.random->Restore();
  torch::jit::drop(*stack, arguments);
  for (const Output& output : kept.outputs) {
    at::Tensor tensor;
    if (output.in_place) tensor = tensors.front();
    if (output.read != nullptr) tensor = output.read();
    if (tensor.defined()) tensor.set_requires_grad(output.requires_grad);
    stack->emplace_back(std::move(tensor));
  }
}

}  // namespace stowage
