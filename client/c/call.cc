#include "client/c/call.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <new>
#include <utility>

#include "client/c/replies.h"

namespace {

// How often a caller sees progress.
constexpr std::chrono::milliseconds kProgressPeriod(20);
constexpr size_t kMaxEvents = 64;
constexpr char kNoMemory[] =
    R"({"error":{"code":8,"message":"this machine has too little free memory"}})";

}  // namespace

stowage_call::stowage_call(std::string last) : process_(getpid()) { End(std::move(last)); }

stowage_call::stowage_call(Work work)
    : fallback_(kNoMemory),
      process_(getpid()),
      thread_([this, work = std::move(work)](const std::stop_token& stop) { Run(work, stop); }) {}

stowage_call::~stowage_call() { Cancel(); }

bool stowage_call::IsOfAnotherProcess() const { return process_ != getpid(); }

// Nothing may leave the thread: it would end the process.
void stowage_call::Run(const Work& work, const std::stop_token& stop) {
  try {
    try {
      End(work(*this, stop));
    } catch (const std::bad_alloc&) {
      End(std::move(fallback_));
    } catch (const std::exception& error) {
      End(stowage::ErrorEvent(stowage::ErrorOf(error)));
    }
  } catch (...) {
    const std::lock_guard<std::mutex> lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }
}

void stowage_call::End(std::string last) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_cancelled_) {
    last = stowage::ErrorEvent(absl::CancelledError("the call was cancelled"));
  }
  progress_.clear();
  events_.push_back(std::move(last));
  has_ended_ = true;
  changed_.notify_all();
}

void stowage_call::Add(std::string event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_cancelled_) return;
  if (events_.size() == kMaxEvents) events_.pop_front();
  events_.push_back(std::move(event));
  changed_.notify_all();
}

void stowage_call::SetProgress(std::string event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!is_cancelled_) progress_ = std::move(event);
}

const char* stowage_call::Next(std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    const auto now = std::chrono::steady_clock::now();
    const auto wait = std::min<std::chrono::steady_clock::duration>(kProgressPeriod, end - now);
    changed_.wait_for(lock, wait, [this] { return has_ended_ || !events_.empty(); });
    if (!events_.empty()) {
      current_ = std::move(events_.front());
      events_.pop_front();
      return current_.c_str();
    }
    const auto seen = std::chrono::steady_clock::now();
    if (!progress_.empty() && seen - shown_ >= kProgressPeriod) {
      shown_ = seen;
      current_ = std::exchange(progress_, {});
      return current_.c_str();
    }
    if (has_ended_ || seen >= end) return nullptr;
  }
}

bool stowage_call::HasEnded() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return has_ended_ && events_.empty();
}

void stowage_call::Cancel() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!has_ended_) {
      is_cancelled_ = true;
      events_.clear();
      progress_.clear();
    }
  }
  thread_.request_stop();
}
