// What passes from stage to stage: what one returns to the next, and the skips that cross.
#ifndef STOWAGE_CLIENT_TORCH_STAGES_STAGE_BORDERS_H_
#define STOWAGE_CLIENT_TORCH_STAGES_STAGE_BORDERS_H_

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "client/torch/stages/torch_stage.h"

namespace stowage {

// The borders between the stages of a network. Value l, l = 0..L, is a tuple: what stage l returns
// to the next one, then the skips that a stage up to l saves and one after it reads. Immutable.
class StageBorders {
 public:
  using Names = std::vector<std::string>;
  static bool Has(const Names& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  // Of a part of a network: `entering` are the skips in value 0, `leaving` those in value L, which
  // its stages save.
  explicit StageBorders(const std::vector<TorchStage>& stages, const Names& entering = {},
                        const Names& leaving = {});

  // Runs `stage`, which is stage l, on value l-1 and returns value l. Throws c10::ValueError, with
  // a message that reads on after the stage's name, if it reads what does not exist, or takes or
  // returns another number of tensors than it declares; may throw other exceptions of LibTorch.
  Tensors Run(const TorchStage& stage, int l, const Tensors& value, const SideInputs& sides) const;

 private:
  std::vector<Names> skips_;  // by value
};

// A tuple_forward that runs all stages, which read what `entering` names and save what `leaving`
// names. It throws what Run() throws.
std::function<Tensors(const Tensors&)> JoinedForward(std::vector<TorchStage> stages,
                                                     const std::vector<std::string>& entering,
                                                     const std::vector<std::string>& leaving = {});

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_STAGES_STAGE_BORDERS_H_
