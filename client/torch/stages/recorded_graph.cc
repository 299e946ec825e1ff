#include "client/torch/stages/recorded_graph.h"

#include <c10/util/Exception.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stowage {

RecordedGraph::Form::Form(const at::Tensor& tensor)
    : type(tensor.scalar_type()), device(tensor.device()), sizes(tensor.sizes().vec()) {
  if (tensor.layout() == at::kStrided) strides = tensor.strides().vec();
}

std::string RecordedGraph::Form::Text() const {
  return absl::StrCat(c10::toString(type), "[", absl::StrJoin(sizes, ", "), "] of strides [",
                      absl::StrJoin(strides, ", "), "] on ", device.str());
}

SavedTensor RecordedGraph::AddPlace(const at::Tensor& tensor) {
  places_.push_back(std::make_shared<Place>(Place{Form(tensor)}));
  return [place = places_.back()] {
    TORCH_CHECK(place->load != nullptr,
                "runs a backward inside its forward: declare it no_recompute");
    return place->load();
  };
}

void RecordedGraph::Keep(size_t place, SavedTensor load) {
  places_[place]->load = std::move(load);
  places_[place]->kept = true;
}

void RecordedGraph::SetGraph(StageGraph graph) {
  graph_ = std::move(graph);
  if (graph_.empty()) places_.clear();
}

void RecordedGraph::BeginReplay() {
  missing_ = 0;
  for (const std::shared_ptr<Place>& place : places_) {
    if (place->kept) continue;
    place->load = nullptr;
    ++missing_;
  }
  next_ = 0;
  difference_.clear();
}

void RecordedGraph::Fill(const at::Tensor& tensor, SavedTensor load) {
  Place& place = *places_[next_];
  if (const Form form(tensor); form != place.form) {
    EndBy(absl::StrCat("saves ", form.Text(), " as tensor ", next_ + 1,
                       " for its backward, where its first run saved ", place.form.Text()));
  }
  ++next_;
  if (place.kept) return;
  place.load = std::move(load);
  --missing_;
  if (ended()) throw ReplayEnd();
}

void RecordedGraph::EndBy(std::string difference) {
  difference_ = std::move(difference);
  throw ReplayEnd();
}

absl::Status RecordedGraph::EndReplay() const {
  std::string difference = difference_;
  if (difference.empty() && missing_ > 0) {
    difference = absl::StrCat("saves ", next_, " of the ", places_.size(),
                              " tensors that its first run saved for its backward");
  }
  if (difference.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("recomputed, it ", difference,
                   ": declare it no_recompute, or make it compute the same twice"));
}

}  // namespace stowage
