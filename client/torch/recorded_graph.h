// The graph of a stage's forward that saved nothing, for the stage's replay: it runs the backward,
// and the replay ends as soon as the tensors that it reads are there.
#ifndef STOWAGE_CLIENT_TORCH_RECORDED_GRAPH_H_
#define STOWAGE_CLIENT_TORCH_RECORDED_GRAPH_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/torch/native/saved_tensors.h"
#include "client/torch/stage_graph.h"

namespace stowage {

// The recorded forward makes a place of each tensor that autograd saves, which holds no tensor. Its
// replay fills the places in the same order. Members may throw LibTorch's exceptions.
class RecordedGraph {
 public:
  // Thrown by Fill() to end the replay. Not an std::exception, so that a stage that catches those
  // does not catch it.
  struct ReplayEnd {};

  // Of the recorded forward. The place's tensor can be read once it is filled.
  SavedTensor AddPlace(const at::Tensor& tensor);
  // Without a graph there is no backward, which reads nothing.
  void SetGraph(StageGraph graph);
  const StageGraph& graph() const { return graph_; }

  // Of each replay, in this order.
  void BeginReplay();
  // Whether the replay needs no more: all places are filled, or it is not like the recorded
  // forward.
  bool ended() const { return !difference_.empty() || filled_ == places_.size(); }
  // Fills the next place and throws ReplayEnd if it ended(). Requires: it has not yet.
  void Fill(const at::Tensor& tensor, SavedTensor load);
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
  };

  std::vector<std::shared_ptr<Place>> places_;  // each shared with what reads it
  StageGraph graph_;
  size_t filled_ = 0;
  std::string difference_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_RECORDED_GRAPH_H_
