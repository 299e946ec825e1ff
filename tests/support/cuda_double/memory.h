// Device memory that host code cannot touch, and the registrations of host memory.
#ifndef STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_MEMORY_H_
#define STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tests/support/cuda_double/access_history.h"
#include "tests/support/cuda_double/call_site.h"

namespace stowage::cuda_double {

struct Work;

// An allocation of device memory, or a registration of host memory.
struct Block {
  void* data = nullptr;  // what callers get
  uintptr_t begin = 0;   // its address
  size_t bytes = 0;
  int device = 0;
  const char* what = "";  // the entry point that made it
  CallSite site;
  AccessHistory history;

  bool Contains(const Range& range) const {
    return begin <= range.begin() && range.end() <= begin + bytes;
  }
};

// Device memory that was freed and not allocated again.
struct FreedBlock {
  uintptr_t begin = 0;
  size_t capacity = 0;         // of the addresses, which may be more than what was allocated
  std::shared_ptr<Work> free;  // null: cudaFree(), which is no work
  CallSite site;
};

// Not thread-safe. Pages are mapped twice: the addresses that callers get have no access, View() is
// what the double itself uses.
class Memory {
 public:
  enum class Reuse { kAtOnce, kLate };  // of addresses: the last that were freed, or the first

  struct Options {
    size_t bytes = 0;  // of each device
    Reuse reuse = Reuse::kLate;
    std::byte poison{};
  };

  explicit Memory(const Options& options) : options_(options) {}

  // Null: the device has not so much left. Addresses are reused where `may_reuse` says so.
  Block* Allocate(size_t bytes, int device,
                  const std::function<bool(const FreedBlock&)>& may_reuse);
  // Requires: `block` is one of Allocate()'s. It is no more.
  void Free(const Block* block, std::shared_ptr<Work> free, const CallSite& site);

  static bool IsDevice(const void* data);
  // The block whose addresses these are, or partly are; null: none.
  Block* FindBlock(const Range& range);
  const FreedBlock* FindFreed(const void* data) const;

  // Null: a part is registered already.
  Block* Register(void* data, size_t bytes);
  // The registration that overlaps the range; null: none.
  Block* FindRegistered(const Range& range);
  bool Unregister(void* data) { return registered_.erase(AddressOf(data)) > 0; }

  // What the double reads and writes for an address; host memory is its own view.
  static std::byte* View(const void* data);
  void Poison(uintptr_t begin, size_t bytes) const;

  // Device blocks, then registrations.
  std::vector<const Block*> All() const;

 private:
  static uintptr_t AddressOf(const void* data) { return reinterpret_cast<uintptr_t>(data); }
  // An address for `bytes`, with the addresses after it that it takes.
  struct Place {
    uintptr_t begin = 0;
    size_t capacity = 0;
  };
  Place FindPlace(size_t capacity, const std::function<bool(const FreedBlock&)>& may_reuse);

  const Options options_;
  std::map<uintptr_t, Block> blocks_;
  std::map<uintptr_t, size_t> capacities_;  // of the blocks
  std::map<int, size_t> used_bytes_;        // by device
  std::vector<FreedBlock> freed_;           // in the order in which they were freed
  size_t next_ = 0;                         // where addresses begin that were never used
  std::map<uintptr_t, Block> registered_;
};

}  // namespace stowage::cuda_double

#endif  // STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_MEMORY_H_
