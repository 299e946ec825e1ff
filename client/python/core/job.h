// Runs work on a thread of its own while the calling thread stays a Python thread: it delivers
// callbacks and notices Ctrl-C.
#ifndef STOWAGE_CLIENT_PYTHON_CORE_JOB_H_
#define STOWAGE_CLIENT_PYTHON_CORE_JOB_H_

#include <pybind11/pybind11.h>

#include <functional>
#include <stop_token>

#include "absl/functional/function_ref.h"

namespace stowage {

// What the thread that works hands to the calling thread. Thread-safe.
class Job {
 public:
  // A function that the calling thread runs with the GIL, soon and in order.
  using Delivery = std::function<void()>;

  // Runs `work` and returns when it has ended. The calling thread holds the GIL before and after,
  // and gives it up while it waits. Every 20 ms it looks for signals and calls `cancelled`, if that
  // is not None. A signal's exception (KeyboardInterrupt), one of a delivery or of `cancelled`, or
  // a true `cancelled` set the token; once the work has ended, an exception is thrown on. `work`
  // runs without the GIL and touches no Python object.
  void Run(absl::FunctionRef<void(const std::stop_token& stop)> work,
           const pybind11::object& cancelled);

  // From `work`: `deliver` runs on the calling thread. Dropped once the token is set.
  void Deliver(Delivery deliver);
  // The same, in place of the last one that was given so and has not run: of many the last counts.
  void DeliverLatest(Delivery deliver);

  // Whether `cancelled` was true.
  bool was_cancelled() const { return was_cancelled_; }

 private:
  struct Shared;
  Shared* shared_ = nullptr;  // of the Run() in progress
  bool was_cancelled_ = false;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_PYTHON_CORE_JOB_H_
