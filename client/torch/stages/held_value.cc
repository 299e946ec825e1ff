#include "client/torch/stages/held_value.h"

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

int64_t RoundedUp(int64_t bytes, int64_t granularity) {
  return (bytes + granularity - 1) / granularity * granularity;
}

// All bytes of a storage as a tensor.
at::Tensor BytesOf(const c10::Storage& storage, c10::Device device) {
  return at::empty({0}, at::dtype(at::kByte).device(device))
      .set_(storage, 0, {static_cast<int64_t>(storage.nbytes())}, {1});
}

at::Tensor Blob(std::byte* data, int64_t bytes) { return at::from_blob(data, {bytes}, at::kByte); }

// Enqueues on the current stream; a copy within the host is synchronous.
void CopyBytes(const at::Tensor& from, const at::Tensor& to) {
  if (from.is_cpu() && to.is_cpu()) {
    std::memcpy(to.data_ptr(), from.data_ptr(), static_cast<size_t>(from.numel()));
  } else {
    to.copy_(from, /*non_blocking=*/true);
  }
}

}  // namespace

const void* StorageOf(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

TensorView ViewOf(const at::Tensor& tensor, size_t block) {
  return {block,
          tensor.scalar_type(),
          tensor.storage_offset(),
          tensor.sizes().vec(),
          tensor.strides().vec(),
          tensor.is_conj(),
          tensor.is_neg()};
}

StageOutput StageOutput::Of(const std::vector<at::Tensor>& tuple) {
  StageOutput output;
  for (const at::Tensor& tensor : tuple) {
    const auto found = std::find_if(output.tensors.begin(), output.tensors.end(),
                                    [&](const at::Tensor& other) { return other.is_same(tensor); });
    output.order.push_back(static_cast<size_t>(found - output.tensors.begin()));
    if (found == output.tensors.end()) output.tensors.push_back(tensor);
  }
  return output;
}

std::vector<at::Tensor> StageOutput::Tuple() const {
  std::vector<at::Tensor> tuple;
  tuple.reserve(order.size());
  for (const size_t i : order) tuple.push_back(tensors[i]);
  return tuple;
}

TensorView HeldValue::Hold(const at::Tensor& tensor) {
  // Tensors of one storage share a block, so that its bytes count once.
  const auto found = std::find_if(
      blocks_.begin(), blocks_.end(),
      [&](const std::shared_ptr<Block>& block) { return block->identity == StorageOf(tensor); });
  const auto index = static_cast<size_t>(found - blocks_.begin());
  if (found == blocks_.end()) {
    const auto size = static_cast<int64_t>(tensor.storage().nbytes());
    // All of the storage, of which `tensor` may be a part: freeing a part frees nothing.
    blocks_.push_back(
        std::make_shared<Block>(Block{tensor.storage(), StorageOf(tensor), size, tensor.device()}));
  }
  return ViewOf(tensor, index);
}

std::function<at::Tensor()> HeldValue::HoldForReader(const at::Tensor& tensor) {
  TensorView view = Hold(tensor);
  return [block = blocks_[view.block], view = std::move(view)] { return TensorIn(*block, view); };
}

void HeldValue::DropUnread() {
  const auto unread = [](const std::shared_ptr<Block>& block) { return block.use_count() == 1; };
  blocks_.erase(std::remove_if(blocks_.begin(), blocks_.end(), unread), blocks_.end());
}

void HeldValue::LeaveToReaders() { blocks_.clear(); }

void HeldValue::HoldOutput(const StageOutput& output) {
  outputs_.clear();
  for (const at::Tensor& tensor : output.tensors) outputs_.push_back(Hold(tensor));
  differentiable_ = output.differentiable;
  order_ = output.order;
}

StageOutput HeldValue::Output() const {
  StageOutput output{{}, differentiable_, order_};
  output.tensors.reserve(outputs_.size());
  for (const TensorView& view : outputs_) output.tensors.push_back(Tensor(view));
  return output;
}

void HeldValue::MarkPassed(const HeldValue& before) {
  for (const std::shared_ptr<Block>& block : blocks_) {
    block->passed =
        std::any_of(before.outputs_.begin(), before.outputs_.end(), [&](const TensorView& view) {
          return before.blocks_[view.block]->identity == block->identity;
        });
  }
}

bool HeldValue::Holds(const at::Tensor& tensor) const {
  return tensor.has_storage() &&
         std::any_of(blocks_.begin(), blocks_.end(), [&](const std::shared_ptr<Block>& block) {
           return block->identity == StorageOf(tensor);
         });
}

std::optional<size_t> HeldValue::FindOutput(const at::Tensor& tensor) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (blocks_[outputs_[i].block]->identity == StorageOf(tensor)) return i;
  }
  return std::nullopt;
}

int64_t HeldValue::Bytes(int64_t granularity) const {
  int64_t bytes = 0;
  for (const auto& block : blocks_) bytes += RoundedUp(block->size, granularity);
  return bytes;
}

int64_t HeldValue::PassedBytes(int64_t granularity) const {
  int64_t bytes = 0;
  for (const auto& block : blocks_) {
    if (block->passed) bytes += RoundedUp(block->size, granularity);
  }
  return bytes;
}

bool HeldValue::IsShared(const std::vector<const HeldValue*>& values) const {
  // Each block is one reference to its storage.
  const auto references = [&values](const Block& block) {
    int64_t count = 0;
    for (const HeldValue* value : values) {
      for (const auto& other : value->blocks_) {
        if (other->storage && other->identity == block.identity) ++count;
      }
    }
    return count;
  };
  return std::any_of(blocks_.begin(), blocks_.end(), [&](const auto& block) {
    return block->storage && !block->passed && block->storage.use_count() > 1 &&
           static_cast<int64_t>(block->storage.use_count()) > references(*block);
  });
}

at::Tensor HeldValue::Tensor(const TensorView& view) const {
  return TensorIn(*blocks_[view.block], view);
}

at::Tensor HeldValue::TensorIn(const Block& block, const TensorView& view) {
  // Not by at::empty() and set_(): a backward reads many tensors, and those two take longer to
  // dispatch than a small kernel to run.
  const c10::DispatchKey key = at::dtype(view.type).device(block.device).computeDispatchKey();
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(block.storage), key, c10::scalarTypeToTypeMeta(view.type));
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(at::IntArrayRef(view.sizes), at::IntArrayRef(view.strides));
  impl->set_storage_offset(view.offset);
  if (view.conjugated) impl->_set_conj(true);
  if (view.negated) impl->_set_neg(true);
  return tensor;
}

at::Tensor HeldValue::PartOfOutput(size_t tensor, TensorView view) const {
  // A recomputation has other storages: the block number of the earlier run is meaningless.
  view.block = outputs_[tensor].block;
  return Tensor(view);
}

// Calls copy(block number, its part of the span as a tensor).
template <typename Copy>
absl::Status HeldValue::ForEachPart(PinnedSpan span, int64_t granularity, const Copy& copy) const {
  if (const int64_t bytes = Bytes(granularity); bytes != span.bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("takes ", bytes, " bytes where its chain says ", span.bytes,
                     ": the chain is of another network or another input; profile again"));
  }
  int64_t offset = 0;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    copy(i, Blob(span.data + offset, blocks_[i]->size));
    offset += RoundedUp(blocks_[i]->size, granularity);
  }
  return absl::OkStatus();
}

absl::Status HeldValue::CopyToHost(PinnedSpan to, int64_t granularity) const {
  return ForEachPart(to, granularity, [this](size_t i, const at::Tensor& host) {
    CopyBytes(BytesOf(blocks_[i]->storage, blocks_[i]->device), host);
  });
}

absl::Status HeldValue::CopyFromHost(PinnedSpan from, int64_t granularity) {
  return ForEachPart(from, granularity, [this](size_t i, const at::Tensor& host) {
    CopyBytes(host, BytesOf(blocks_[i]->storage, blocks_[i]->device));
  });
}

void HeldValue::Release() {
  for (const auto& block : blocks_) block->storage = c10::Storage();
}

// Views refer to blocks by number, so that they stay valid although addresses change.
void HeldValue::Allocate() {
  for (const auto& block : blocks_) {
    // Not by at::empty(): with deterministic algorithms LibTorch fills its memory with a kernel,
    // which might overwrite what another stream copies there.
    block->storage = c10::Storage(c10::Storage::use_byte_size_t(), block->size,
                                  c10::GetAllocator(block->device.type()));
    block->identity = block->storage.unsafeGetStorageImpl();
  }
}

bool IsOnDevice(const at::Tensor& tensor, c10::Device device) {
  return tensor.has_storage() && (device.is_cpu() ? tensor.is_cpu() : tensor.device() == device);
}

}  // namespace stowage
