// One forward of one stage of a LibTorch network, cut off from the rest of the network.
#ifndef STOWAGE_CLIENT_TORCH_STAGES_STAGE_FORWARD_H_
#define STOWAGE_CLIENT_TORCH_STAGES_STAGE_FORWARD_H_

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/torch/native/saved_tensors.h"
#include "client/torch/stages/held_value.h"
#include "client/torch/stages/kept_results.h"
#include "client/torch/stages/recorded_graph.h"
#include "client/torch/stages/torch_stage.h"
#include "solver/model/schedule.h"

namespace stowage {

// The storages of parameters, buffers and side inputs, by StorageOf(). They stay on the device: a
// stage that saves one saves no memory of its value.
enum class Constant { kBuffer, kParameter, kSideInput };
using Constants = std::unordered_map<const void*, Constant>;
Constants ConstantsOf(const std::vector<TorchStage>& stages, const SideInputs& sides);

// StageGraph::HoldsSavedTensorsOnly() beside these.
bool HoldsSavedTensorsOnly(const StageGraph& graph, const Constants& constants);

// Runs the forward of stage l from value l-1 into value l. Everything it refers to must outlive the
// call, and `active_stage` and the values also the backward, which reads saved tensors through
// them. For one call.
class StageForward {
 public:
  struct Arguments {
    c10::Device device;
    int stage = 0;  // l
    const std::string& name;
    OperationKind kind = OperationKind::kForwardSave;
    const std::function<Tensors(const Tensors&)>& forward;  // of the tuple of value l-1
    const SideInputs& sides;
    const Constants& constants;
    const HeldValue& input;   // value l-1
    HeldValue& value;         // value l; empty but for a rerun
    const int& active_stage;  // of which a forward or backward is running
    // A forward that saves nothing records its graph here, one that saves is its replay; null:
    // neither.
    RecordedGraph* recorded = nullptr;
    // Of a forward that saves by an option and of its rerun, which has the value of the forward.
    // `recorded` is the forward's then.
    KeptResults* kept = nullptr;
    bool reruns = false;
  };

  explicit StageForward(const Arguments& arguments) : arguments_(arguments) {}

  // Errors: INVALID_ARGUMENT for a stage that does not suit a schedule, with the remedy. May throw
  // LibTorch's exceptions.
  absl::Status Run();

 private:
  bool saves() const { return Saves(arguments_.kind); }
  absl::StatusOr<StageOutput> RunForward(const StageOutput& input);
  bool Aliases(const at::Tensor& output) const;
  absl::Status CheckOutput(const at::Tensor& output) const;
  absl::Status CheckWrites() const;
  absl::Status RunReplay(const StageOutput& input);
  SavedTensor Save(const at::Tensor& tensor);
  // The forward, each operator by `kept` if there is one.
  Tensors CallForward(const StageOutput& input) const;
  KeptResults::Run KeptRun();
  bool IsElsewhere(const at::Tensor& tensor) const;
  SavedTensor SaveInReplay(const at::Tensor& tensor);
  SavedTensor SaveForBackward(const at::Tensor& tensor);
  template <typename Load>
  SavedTensor ForOwnBackward(Load load) const;

  // A tensor's version counter, and its version when it was seen.
  struct Version {
    explicit Version(const at::Tensor& tensor)
        : counter(tensor.unsafeGetTensorImpl()->version_counter()),
          seen(counter.current_version()) {}
    bool changed() const { return counter.current_version() != seen; }

    c10::VariableVersion counter;
    uint32_t seen;
  };

  const Arguments arguments_;
  std::optional<KeptResults::Run> kept_run_;
  std::vector<Version> inputs_;
  std::vector<Version> sides_;  // in the order of their names
  std::vector<Version> saved_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_STAGES_STAGE_FORWARD_H_
