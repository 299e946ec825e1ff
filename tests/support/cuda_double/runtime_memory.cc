// Memory of the double, and the work that accesses it.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/cuda_double/runtime.h"

namespace stowage::cuda_double {
namespace {

// What the calling thread runs as work of a stream.
struct Running {
  Runtime* runtime = nullptr;
  const std::shared_ptr<Accessor>* accessor = nullptr;
};
thread_local Running running_here;

// While in scope, the calling thread runs a host function or a kernel.
class RunningScope {
 public:
  RunningScope(Runtime* runtime, const std::shared_ptr<Accessor>* accessor) {
    running_here = {runtime, accessor};
  }
  ~RunningScope() { running_here = {}; }
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;
};

Range WholeOf(const Block& block) { return {block.data, block.bytes, AccessKind::kWrite}; }

}  // namespace

Runtime* Runtime::running() { return running_here.runtime; }

std::shared_ptr<const Accessor> Runtime::HostAccessor(const char* what) {
  auto accessor = std::make_shared<Accessor>();
  accessor->what = what;
  accessor->moment = host_.Tick(kHost);
  accessor->clock = host_;
  accessor->site = CallSite::Here();
  return accessor;
}

void Runtime::AddAccess(Block* block, const Range& range,
                        const std::shared_ptr<const Accessor>& accessor) {
  const std::string race = block->history.Add(range, accessor);
  if (!race.empty()) AddReport(Finding::kRace, race);
}

cudaError_t Runtime::Malloc(void** data, size_t bytes, int device) {
  if (data == nullptr || bytes == 0) return cudaErrorInvalidValue;
  const auto may_reuse = [](const FreedBlock& freed) {
    return freed.free == nullptr || freed.free->has_run;
  };
  Block* const block = memory_.Allocate(bytes, device, may_reuse);
  if (block == nullptr) return cudaErrorMemoryAllocation;
  const auto accessor = HostAccessor("cudaMalloc");
  block->what = accessor->what;
  block->site = accessor->site;
  AddAccess(block, WholeOf(*block), accessor);
  memory_.Poison(block->begin, bytes);
  *data = block->data;
  return cudaSuccess;
}

// An address is reused if the free happens before the allocation, or has been seen to have run, or
// if the allocation waits for it.
cudaError_t Runtime::MallocAsync(void** data, size_t bytes, cudaStream_t stream, int device) {
  if (!options_.has_pools) return cudaErrorNotSupported;
  Stream* const found = FindStream(stream, device, "cudaMallocAsync");
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  if (data == nullptr || bytes == 0) return cudaErrorInvalidValue;
  const auto work = MakeWork(*found, "cudaMallocAsync");
  const auto may_reuse = [&](const FreedBlock& freed) {
    if (freed.free == nullptr) return true;
    const Accessor& free = *freed.free->accessor;
    if (work->accessor->clock.HasPassed(free.moment)) return true;
    if (!freed.free->has_run && Chance(0.5)) return false;
    work->after.push_back(freed.free);
    work->accessor->clock.Join(free.clock);
    found->clock.Join(free.clock);
    return true;
  };
  Block* const block = memory_.Allocate(bytes, found->device, may_reuse);
  if (block == nullptr) return cudaErrorMemoryAllocation;
  block->what = work->accessor->what;
  block->site = work->accessor->site;
  AddAccess(block, WholeOf(*block), work->accessor);
  *data = block->data;
  work->run = [this, begin = block->begin, bytes] {
    memory_.Poison(begin, bytes);
    return cudaSuccess;
  };
  Enqueue(*found, work);
  return cudaSuccess;
}

// The double does not synchronize here, since CUDA says of no pointer that it does.
cudaError_t Runtime::Free(void* data) {
  if (data == nullptr) return cudaSuccess;
  Block* const block = memory_.FindBlock({data, 1});
  if (block == nullptr || block->data != data) {
    ReportNoBlock({data, 1}, "cudaFree");
    return cudaErrorInvalidValue;
  }
  const auto accessor = HostAccessor("cudaFree");
  AddAccess(block, WholeOf(*block), accessor);
  memory_.Poison(block->begin, block->bytes);
  memory_.Free(block, nullptr, accessor->site);
  return cudaSuccess;
}

cudaError_t Runtime::FreeAsync(void* data, cudaStream_t stream, int device) {
  if (!options_.has_pools) return cudaErrorNotSupported;
  Stream* const found = FindStream(stream, device, "cudaFreeAsync");
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  Block* const block = memory_.FindBlock({data, 1});
  if (block == nullptr || block->data != data) {
    ReportNoBlock({data, 1}, "cudaFreeAsync");
    return cudaErrorInvalidValue;
  }
  const auto work = MakeWork(*found, "cudaFreeAsync");
  AddAccess(block, WholeOf(*block), work->accessor);
  work->run = [this, begin = block->begin, bytes = block->bytes] {
    memory_.Poison(begin, bytes);
    return cudaSuccess;
  };
  memory_.Free(block, work, work->accessor->site);
  Enqueue(*found, work);
  return cudaSuccess;
}

cudaError_t Runtime::HostRegister(void* data, size_t bytes) {
  if (data == nullptr || bytes == 0 || Memory::IsDevice(data)) return cudaErrorInvalidValue;
  Block* const block = memory_.Register(data, bytes);
  if (block == nullptr) return cudaErrorHostMemoryAlreadyRegistered;
  const auto accessor = HostAccessor("cudaHostRegister");
  block->what = accessor->what;
  block->site = accessor->site;
  AddAccess(block, WholeOf(*block), accessor);
  return cudaSuccess;
}

cudaError_t Runtime::HostUnregister(void* data) {
  Block* const block = memory_.FindRegistered({data, 1});
  if (block == nullptr || block->data != data) return cudaErrorHostMemoryNotRegistered;
  AddAccess(block, WholeOf(*block), HostAccessor("cudaHostUnregister"));
  (void)memory_.Unregister(data);
  return cudaSuccess;
}

void Runtime::ReportNoBlock(const Range& range, const char* what) {
  const FreedBlock* const freed = memory_.FindFreed(range.data);
  std::string text =
      absl::StrCat(what, ": ", range.bytes, " bytes at 0x", absl::Hex(range.begin()),
                   freed == nullptr ? " are not within one allocation" : " are freed", "\n",
                   CallSite::Here().ToString());
  if (freed != nullptr) absl::StrAppend(&text, "  freed by\n", freed->site.ToString());
  AddReport(freed == nullptr ? Finding::kOutOfBounds : Finding::kUseAfterFree, std::move(text));
}

Runtime::Place Runtime::FindPlace(const Range& range, const char* what) {
  const bool is_device = Memory::IsDevice(range.data);
  Block* const block = is_device ? memory_.FindBlock(range) : memory_.FindRegistered(range);
  if (block == nullptr && !is_device) return {Kind::kPageable, nullptr};
  if (block == nullptr || !block->Contains(range)) {
    ReportNoBlock(range, what);
    return {Kind::kInvalid, nullptr};
  }
  return {is_device ? Kind::kDevice : Kind::kRegistered, block};
}

// A registration may have ended before a copy runs; its memory may be unmapped by now.
bool Runtime::IsStillThere(const Range& range, Kind kind) {
  if (kind != Kind::kRegistered) return true;
  const Block* const block = memory_.FindRegistered(range);
  return block != nullptr && block->Contains(range);
}

cudaError_t Runtime::MemcpyAsync(const Range& to, const Range& from, cudaMemcpyKind kind,
                                 cudaStream_t stream, int device) {
  Stream* const found = FindStream(stream, device, "cudaMemcpyAsync");
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  if (to.bytes == 0) return cudaSuccess;
  const Place target = FindPlace(to, "cudaMemcpyAsync");
  const Place source = FindPlace(from, "cudaMemcpyAsync");
  if (target.kind == Kind::kInvalid || source.kind == Kind::kInvalid) return cudaErrorInvalidValue;
  const bool to_device = target.kind == Kind::kDevice;
  const bool from_device = source.kind == Kind::kDevice;
  const cudaMemcpyKind actual =
      to_device ? (from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice)
                : (from_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost);
  if (kind != actual && kind != cudaMemcpyDefault) {
    AddReport(Finding::kMisuse,
              absl::StrCat("cudaMemcpyAsync: kind ", static_cast<int>(kind),
                           " is not the direction of the copy, ", static_cast<int>(actual), "\n",
                           CallSite::Here().ToString()));
    return cudaErrorInvalidValue;
  }
  const auto work = MakeWork(*found, "cudaMemcpyAsync");
  work->can_fail = true;
  if (target.block != nullptr) AddAccess(target.block, to, work->accessor);
  if (source.block != nullptr) AddAccess(source.block, from, work->accessor);
  work->run = [this, to, from, to_kind = target.kind, from_kind = source.kind] {
    if (!IsStillThere(to, to_kind) || !IsStillThere(from, from_kind)) {
      return cudaErrorIllegalAddress;
    }
    std::memmove(Memory::View(to.data), Memory::View(from.data), to.bytes);
    return cudaSuccess;
  };
  Enqueue(*found, work);
  const bool between_hosts = actual == cudaMemcpyHostToHost;
  const bool is_pageable = target.kind == Kind::kPageable || source.kind == Kind::kPageable;
  // CUDA says of a copy of pageable memory that it might block: no order follows from it.
  if (between_hosts || (is_pageable && Chance(0.5))) RunUntil(work);
  if (between_hosts) host_.Join(work->accessor->clock);
  return cudaSuccess;
}

cudaError_t Runtime::LaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data,
                                    int device) {
  Stream* const found = FindStream(stream, device, "cudaLaunchHostFunc");
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  if (function == nullptr) return cudaErrorInvalidValue;
  const auto work = MakeWork(*found, "cudaLaunchHostFunc");
  work->run = [this, function, data, work = work.get()] {
    const RunningScope scope(this, &work->accessor);
    function(data);
    return cudaSuccess;
  };
  Enqueue(*found, work);
  return cudaSuccess;
}

cudaError_t Runtime::LaunchKernel(cudaStream_t stream, const std::vector<Range>& ranges,
                                  std::function<void()> body, int device) {
  Stream* const found = FindStream(stream, device, "a kernel");
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  if (found->device != device) {
    AddReport(Finding::kMisuse,
              absl::StrCat("a kernel: device ", device, " is current, the stream is of device ",
                           found->device, "\n", CallSite::Here().ToString()));
    return cudaErrorInvalidResourceHandle;
  }
  const auto work = MakeWork(*found, "a kernel");
  work->can_fail = true;
  bool is_valid = true;
  for (const Range& range : ranges) {
    if (range.bytes == 0) continue;
    const Place place = FindPlace(range, "a kernel");
    if (place.kind == Kind::kPageable) ReportNoBlock(range, "a kernel");
    if (place.block == nullptr) {
      is_valid = false;
    } else {
      AddAccess(place.block, range, work->accessor);
    }
  }
  work->run = [this, is_valid, body = std::move(body), work = work.get()] {
    if (!is_valid) return cudaErrorIllegalAddress;
    const RunningScope scope(this, &work->accessor);
    body();
    return cudaSuccess;
  };
  Enqueue(*found, work);
  return cudaSuccess;
}

void Runtime::Touch(const Range& range) {
  Block* const block = memory_.FindRegistered(range);
  if (block == nullptr || !block->Contains(range)) {
    ReportNoBlock(range, "host code");
    return;
  }
  const bool is_work = running_here.runtime == this;
  if (is_work) {
    AddAccess(block, range, *running_here.accessor);
  } else {
    AddAccess(block, range, HostAccessor("host code"));
  }
}

}  // namespace stowage::cuda_double
