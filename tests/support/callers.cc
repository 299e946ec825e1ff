#include "tests/support/callers.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "tests/support/process.h"

namespace stowage {

using std::chrono::steady_clock;

Callers::Callers(std::vector<Ask> callers) : callers_(std::move(callers)), ended_(callers_.size()) {
  for (size_t i = 0; i < callers_.size(); ++i) {
    threads_.emplace_back([this, i] { Run(callers_[i], &ended_[i]); });
  }
}

void Callers::AwaitCalls(int more) const {
  const auto deadline = steady_clock::now() + kPatience;
  std::vector<int> enough;
  for (const std::atomic<int>& ended : ended_) enough.push_back(ended + more);
  for (size_t i = 0; i < enough.size(); ++i) {
    while (ended_[i] < enough[i]) {
      if (steady_clock::now() > deadline) throw std::runtime_error("calls do not go on");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

std::vector<std::string> Callers::Stop() {
  stop_ = true;
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  MutexLock lock(mutex_);
  return failures_;
}

double Callers::longest_seconds() const {
  MutexLock lock(mutex_);
  return longest_seconds_;
}

void Callers::Run(const Ask& ask, std::atomic<int>* ended) {
  for (; !stop_; ++*ended) {
    const auto begin = steady_clock::now();
    const absl::Status status = ask(calls_++);
    const std::chrono::duration<double> took = steady_clock::now() - begin;
    MutexLock lock(mutex_);
    longest_seconds_ = std::max(longest_seconds_, took.count());
    if (!status.ok()) failures_.push_back(status.ToString());
  }
}

}  // namespace stowage
