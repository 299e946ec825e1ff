// The steps of one call and when each began and ended: what a collector of traces gets of it.
#ifndef STOWAGE_SERVER_EVENTS_CALL_TRACE_H_
#define STOWAGE_SERVER_EVENTS_CALL_TRACE_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "solver/base/mutex.h"
#include "solver/base/out_of_memory.h"

namespace stowage {

// Names of spans; server/README.md, "Traces", says what each covers.
inline constexpr absl::string_view kReadSpan = "stowage.read";
inline constexpr absl::string_view kFindResponseSpan = "stowage.find_response";
inline constexpr absl::string_view kFindAnswerSpan = "stowage.find_answer";
inline constexpr absl::string_view kFindInTiersSpan = "stowage.find_in_tiers";
inline constexpr absl::string_view kQueueSpan = "stowage.queue";
inline constexpr absl::string_view kAwaitOtherSpan = "stowage.await_other_server";
inline constexpr absl::string_view kSolveSpan = "stowage.solve";
inline constexpr absl::string_view kBoundSpan = "stowage.bound";
inline constexpr absl::string_view kSimulateSpan = "stowage.simulate";
inline constexpr absl::string_view kDeliverSpan = "stowage.deliver";

// One step of a call, or a part of one. All texts are static.
struct CallSpan {
  static constexpr size_t kNoParent = SIZE_MAX;

  absl::string_view name = {};     // one of the above
  absl::string_view solver = {};   // of a part of a solve: what runs there, such as "rotor"
  absl::string_view outcome = {};  // of a part of a solve that has ended
  std::chrono::steady_clock::time_point begin = {};
  std::chrono::steady_clock::time_point end = {};
  bool is_joined = false;     // of a solve that another call began
  uint64_t id = 0;            // unique; given once the call has been answered
  size_t parent = kNoParent;  // of a part: the step's place among the spans; else the call's own
};

// Where a call belongs, in hexadecimal digits as in `traceparent`.
struct TraceIds {
  std::string trace = {};   // 32 digits
  std::string parent = {};  // 16, of the caller's span; empty: the trace begins with the call
};

// Thread-safe.
class CallTrace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMaxSpans = 500;  // an Admit of 32 devices has some 130 and their parts

  explicit CallTrace(TraceIds ids) : ids_(std::move(ids)) {}

  const TraceIds& ids() const { return ids_; }

  // Adds steps that have ended, and their parts, whose parents are places among `spans`. What is
  // beyond kMaxSpans, or has no memory, is left out; so were `left_out` others before.
  void RecordAll(std::span<const CallSpan> spans, size_t left_out = 0) {
    size_t added = 0;
    const auto add = [&] {
      MutexLock lock(mutex_);
      const size_t first = spans_.size();
      for (CallSpan span : spans.first(std::min(spans.size(), kMaxSpans - first))) {
        if (span.parent != CallSpan::kNoParent) span.parent += first;
        spans_.push_back(span);
        ++added;
      }
      return true;
    };
    (void)UnlessOutOfMemory(add, false);
    MutexLock lock(mutex_);
    left_out_ += left_out + spans.size() - added;
  }
  void Record(const CallSpan& span) { RecordAll({&span, 1}); }
  void RecordUntilNow(absl::string_view name, Clock::time_point begin) {
    Record({.name = name, .begin = begin, .end = Clock::now()});
  }

  // Removes and returns the steps; once, when the call has been answered.
  std::vector<CallSpan> TakeSpans() {
    MutexLock lock(mutex_);
    return std::move(spans_);
  }
  size_t left_out() const {
    MutexLock lock(mutex_);
    return left_out_;
  }

 private:
  const TraceIds ids_;
  mutable Mutex mutex_;
  std::vector<CallSpan> spans_ ABSL_GUARDED_BY(mutex_);
  size_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};
using CallTracePtr = std::shared_ptr<CallTrace>;  // null: the call is not traced

// Records a scope as a step. Does nothing where the call is not traced.
class ScopedSpan {
 public:
  ScopedSpan(CallTrace* trace, absl::string_view name) : trace_(trace), name_(name) {
    if (trace_ != nullptr) begin_ = CallTrace::Clock::now();
  }
  ~ScopedSpan() {
    if (trace_ != nullptr) trace_->RecordUntilNow(name_, begin_);
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;

 private:
  CallTrace* const trace_;
  const absl::string_view name_;
  CallTrace::Clock::time_point begin_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_EVENTS_CALL_TRACE_H_
