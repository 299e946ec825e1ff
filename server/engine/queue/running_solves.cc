#include "server/engine/queue/running_solves.h"

#include <algorithm>

namespace stowage {

RunningSolves::Place::Place(RunningSolves& solves, const std::string& solver, int stages)
    : solves_(solves), slot_(solves.Take(solver, stages)) {}

RunningSolves::Place::~Place() { solves_.Free(slot_); }

// Takes the free slot with the lowest number, or appends one. Slots are never removed, so that
// there are at most as many as solves ever ran at once.
RunningSolves::Slot& RunningSolves::Take(const std::string& solver, int stages) {
  MutexLock lock(mutex_);
  const auto free =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.taken; });
  Slot& slot = free != slots_.end() ? *free : slots_.emplace_back();
  slot.taken = true;
  slot.solver = solver;
  slot.stages = stages;
  slot.began = Clock::now();
  slot.fraction = 0;
  return slot;
}

void RunningSolves::Free(Slot& slot) {
  MutexLock lock(mutex_);
  slot.taken = false;
}

std::vector<RunningSolve> RunningSolves::List() const {
  std::vector<RunningSolve> running;
  MutexLock lock(mutex_);
  const Clock::time_point now = Clock::now();
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (!slot.taken) continue;
    running.push_back({.thread = static_cast<int>(i),
                       .solver = slot.solver,
                       .stages = slot.stages,
                       .seconds = std::chrono::duration<double>(now - slot.began).count(),
                       // Progressed() writes it without the lock.
                       .fraction = slot.fraction.load(std::memory_order_relaxed)});
  }
  return running;
}

}  // namespace stowage
