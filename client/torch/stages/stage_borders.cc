#include "client/torch/stages/stage_borders.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

using Names = StageBorders::Names;

// The tensor of this name, where `names` are those of the last `tensors`; null: there is none.
const at::Tensor* Find(const Names& names, const Tensors& tensors, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? nullptr : &*(tensors.end() - (names.end() - found));
}

// What the stage takes of the value before it, whose last tensors are the skips `before`.
Tensors Taken(const TorchStage& stage, const Names& before, const Tensors& value,
              const SideInputs& sides) {
  Tensors taken(value.begin(), value.end() - static_cast<std::ptrdiff_t>(before.size()));
  for (const std::string& name : stage.reads) {
    const at::Tensor* read = Find(before, value, name);
    if (const auto side = sides.find(name); read == nullptr && side != sides.end()) {
      read = &side->second;
    }
    TORCH_CHECK_WITH(ValueError, read != nullptr, "reads ", name,
                     ", which no stage before it saves and no side input is called");
    taken.push_back(*read);
  }
  return taken;
}

// The forward alone, of what the stage takes to what it returns.
Tensors Call(const TorchStage& stage, const Tensors& taken) {
  if (stage.tuple_forward != nullptr) return stage.tuple_forward(taken);
  TORCH_CHECK_WITH(ValueError, stage.forward != nullptr, "has no forward: it is no function");
  TORCH_CHECK_WITH(ValueError, taken.size() == 1 && stage.saves.empty(), "takes ", taken.size(),
                   " tensors and saves ", stage.saves.size(),
                   ": only a tuple_forward can do other than take one and save none");
  return {stage.forward(taken.front())};
}

}  // namespace

StageBorders::StageBorders(const std::vector<TorchStage>& stages, const Names& entering,
                           const Names& leaving)
    : skips_(stages.size() + 1) {
  // Backwards: a skip is in a value if it is saved before it and wanted after it.
  std::vector<Names> wanted(stages.size() + 1);
  wanted.back() = leaving;
  for (size_t l = stages.size(); l > 0; --l) {
    wanted[l - 1] = wanted[l];
    for (const std::string& name : stages[l - 1].reads) wanted[l - 1].push_back(name);
  }
  skips_.front() = entering;
  for (size_t l = 1; l < skips_.size(); ++l) {
    Names saved = skips_[l - 1];
    for (const std::string& name : stages[l - 1].saves) saved.push_back(name);
    std::copy_if(saved.begin(), saved.end(), std::back_inserter(skips_[l]),
                 [&](const std::string& name) { return StageBorders::Has(wanted[l], name); });
  }
  skips_.back() = leaving;  // in the caller's order
}

Tensors StageBorders::Run(const TorchStage& stage, int l, const Tensors& value,
                          const SideInputs& sides) const {
  const Names& before = skips_[static_cast<size_t>(l) - 1];
  const Tensors returned = Call(stage, Taken(stage, before, value, sides));
  TORCH_CHECK_WITH(ValueError, returned.size() > stage.saves.size(), "returns ", returned.size(),
                   " tensors, of which ", stage.saves.size(),
                   " are skips: the next stage takes one at least");
  for (const std::string& name : stage.saves) {
    TORCH_CHECK_WITH(ValueError, Find(before, value, name) == nullptr, "saves ", name,
                     ", which an earlier stage saves and a later one reads: give them two names");
  }
  Tensors result(returned.begin(),
                 returned.end() - static_cast<std::ptrdiff_t>(stage.saves.size()));
  for (const std::string& name : skips_[static_cast<size_t>(l)]) {
    const at::Tensor* const saved = Find(stage.saves, returned, name);
    result.push_back(saved != nullptr ? *saved : *Find(before, value, name));
  }
  return result;
}

std::function<Tensors(const Tensors&)> JoinedForward(std::vector<TorchStage> stages,
                                                     const Names& entering, const Names& leaving) {
  const StageBorders borders(stages, entering, leaving);
  return [parts = std::move(stages), borders](const Tensors& taken) {
    Tensors value = taken;
    for (size_t i = 0; i < parts.size(); ++i) {
      value = borders.Run(parts[i], static_cast<int>(i) + 1, value, {});
    }
    return value;
  };
}

}  // namespace stowage
