#include "tests/support/cuda_double/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace stowage::cuda_double {
namespace {

constexpr size_t kAlignment = 256;              // of cudaMalloc()
constexpr size_t kGap = 256;                    // between blocks, so that overruns show
constexpr size_t kAddresses = size_t{1} << 32;  // pages take memory once they are used

// One for the process, since its addresses must differ from all others in it.
struct Mapping {
  std::byte* device = nullptr;  // no access
  std::byte* view = nullptr;

  Mapping() {
    const int file = memfd_create("cuda_double", MFD_CLOEXEC);
    const bool sized = file >= 0 && ftruncate(file, static_cast<off_t>(kAddresses)) == 0;
    void* const hidden = mmap(nullptr, kAddresses, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
    void* const seen =
        mmap(nullptr, kAddresses, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (!sized || hidden == MAP_FAILED || seen == MAP_FAILED) {
      std::perror("cuda_double: mapping device memory");
      std::abort();
    }
    (void)close(file);
    device = static_cast<std::byte*>(hidden);
    view = static_cast<std::byte*>(seen);
  }
};

const Mapping& TheMapping() {
  static const Mapping mapping;
  return mapping;
}

Block* FindIn(std::map<uintptr_t, Block>& blocks, const Range& range) {
  auto after = blocks.lower_bound(range.end());
  if (after == blocks.begin()) return nullptr;
  Block& last = std::prev(after)->second;
  return last.begin + last.bytes > range.begin() ? &last : nullptr;
}

}  // namespace

Memory::Place Memory::FindPlace(size_t capacity,
                                const std::function<bool(const FreedBlock&)>& may_reuse) {
  const bool has_fresh = next_ + capacity <= kAddresses;
  if (options_.reuse == Reuse::kLate && has_fresh) {
    next_ += capacity;
    return {AddressOf(TheMapping().device) + next_ - capacity, capacity};
  }
  for (size_t i = 0; i < freed_.size(); ++i) {
    const size_t at = options_.reuse == Reuse::kAtOnce ? freed_.size() - 1 - i : i;
    if (freed_[at].capacity < capacity || !may_reuse(freed_[at])) continue;
    const Place place = {freed_[at].begin, freed_[at].capacity};
    freed_.erase(freed_.begin() + static_cast<std::ptrdiff_t>(at));
    return place;
  }
  if (!has_fresh) return {};
  next_ += capacity;
  return {AddressOf(TheMapping().device) + next_ - capacity, capacity};
}

Block* Memory::Allocate(size_t bytes, int device,
                        const std::function<bool(const FreedBlock&)>& may_reuse) {
  if (bytes > options_.bytes - used_bytes_[device]) return nullptr;
  const size_t capacity = (bytes + kGap + kAlignment - 1) / kAlignment * kAlignment;
  const Place place = FindPlace(capacity, may_reuse);
  if (place.begin == 0) return nullptr;
  used_bytes_[device] += bytes;
  capacities_[place.begin] = place.capacity;
  Block& block = blocks_[place.begin];
  block.data = TheMapping().device + (place.begin - AddressOf(TheMapping().device));
  block.begin = place.begin;
  block.bytes = bytes;
  block.device = device;
  return &block;
}

void Memory::Free(const Block* block, std::shared_ptr<Work> free, const CallSite& site) {
  const uintptr_t begin = block->begin;
  used_bytes_[block->device] -= block->bytes;
  freed_.push_back({begin, capacities_[begin], std::move(free), site});
  capacities_.erase(begin);
  blocks_.erase(begin);
}

bool Memory::IsDevice(const void* data) {
  return AddressOf(data) - AddressOf(TheMapping().device) < kAddresses;
}

Block* Memory::FindBlock(const Range& range) { return FindIn(blocks_, range); }

const FreedBlock* Memory::FindFreed(const void* data) const {
  for (const FreedBlock& freed : freed_) {
    if (AddressOf(data) - freed.begin < freed.capacity) return &freed;
  }
  return nullptr;
}

Block* Memory::Register(void* data, size_t bytes) {
  if (FindIn(registered_, {data, bytes}) != nullptr) return nullptr;
  Block& block = registered_[AddressOf(data)];
  block.data = data;
  block.begin = AddressOf(data);
  block.bytes = bytes;
  return &block;
}

Block* Memory::FindRegistered(const Range& range) { return FindIn(registered_, range); }

std::byte* Memory::View(const void* data) {
  if (!IsDevice(data)) return static_cast<std::byte*>(const_cast<void*>(data));
  return TheMapping().view + (AddressOf(data) - AddressOf(TheMapping().device));
}

void Memory::Poison(uintptr_t begin, size_t bytes) const {
  std::byte* const view = TheMapping().view + (begin - AddressOf(TheMapping().device));
  std::memset(view, static_cast<int>(options_.poison), bytes);
}

std::vector<const Block*> Memory::All() const {
  std::vector<const Block*> all;
  for (const auto& [begin, block] : blocks_) all.push_back(&block);
  for (const auto& [begin, block] : registered_) all.push_back(&block);
  return all;
}

}  // namespace stowage::cuda_double
