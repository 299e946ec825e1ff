// The graph of a stage's forward that saved nothing, or a part, for the stage's replay: it runs the
// backward, and the replay ends as soon as the tensors that it reads are there.
#ifndef STOWAGE_CLIENT_TORCH_STAGES_RECORDED_GRAPH_H_
#define STOWAGE_CLIENT_TORCH_STAGES_RECORDED_GRAPH_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/torch/native/saved_tensors.h"
#include "client/torch/stages/stage_graph.h"

namespace stowage {

// The recorded forward makes a place of each tensor that autograd saves, which holds no tensor
// unless it is kept. Its replay fills the others in the same order. Members may throw LibTorch's
// exceptions.
class RecordedGraph {
 public:
  // Thrown by Fill() to end the replay. Not an std::exception, so that a stage that catches those
  // does not catch it.
  struct ReplayEnd {};

  // Of the recorded forward. The place's tensor can be read once it is filled.
  SavedTensor AddPlace(const at::Tensor& tensor);
  size_t places() const { return places_.size(); }
  // The place holds its tensor from now on: no replay fills it.
  void Keep(size_t place, SavedTensor load);
  // Without a graph there is no backward, which reads nothing.
  void SetGraph(StageGraph graph);
  const StageGraph& graph() const { return graph_; }

  // Of each replay, in this order.
  void BeginReplay();
  // Whether the replay needs no more: all places are filled, or it is not like the recorded
  // forward.
  bool ended() const { return !difference_.empty() || missing_ == 0; }
  size_t next() const { return next_; }
  bool next_is_kept() const { return next_ < places_.size() && places_[next_]->kept; }
  // Goes on behind the next place. Requires: it is kept.
  void Pass() { ++next_; }
  // Fills the next place, unless it is kept, and throws ReplayEnd if it ended(). Requires: it has
  // not yet.
  void Fill(const at::Tensor& tensor, SavedTensor load);
  // The replay is not like the recorded forward: it does `difference`. Throws ReplayEnd.
  [[noreturn]] void EndBy(std::string difference);
  // FAILED_PRECONDITION if the replay saved other tensors than the recorded forward.
  absl::Status EndReplay() const;

 private:
  // What must be equal of a tensor in the recorded forward and its replay.
  struct Form {
    explicit Form(const at::Tensor& tensor);
    bool operator==(const Form& other) const = default;
    std::string Text() const;

    at::ScalarType type;
    c10::Device device;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;  // empty: it has none
  };
  struct Place {
    Form form;
    SavedTensor load = nullptr;  // null: not filled
    bool kept = false;           // from the recorded forward on
  };

  std::vector<std::shared_ptr<Place>> places_;  // each shared with what reads it
  StageGraph graph_;
  size_t next_ = 0;
  size_t missing_ = 0;  // places that the replay still has to fill
  std::string difference_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_STAGES_RECORDED_GRAPH_H_
