#include "client/python/core/job.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace stowage {
namespace {

namespace py = pybind11;

// With the 50 ms in which a solver stops, Ctrl-C takes less than 100 ms.
constexpr std::chrono::milliseconds kPoll(20);

}  // namespace

struct Job::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Delivery> deliveries;  // guarded by mutex, as all below
  Delivery latest;                   // empty: none
  bool ended = false;

  // Waits for something to do. Returns what is to be delivered, and whether the work has ended.
  std::pair<std::vector<Delivery>, bool> Wait() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait_for(lock, kPoll, [this] { return ended || !deliveries.empty(); });
    if (latest) deliveries.push_back(std::exchange(latest, nullptr));
    return {std::exchange(deliveries, {}), ended};
  }
};

void Job::Run(absl::FunctionRef<void(const std::stop_token& stop)> work,
              const py::object& cancelled) {
  Shared shared;
  shared_ = &shared;
  std::exception_ptr failure;
  {
    // Joins the thread, without the GIL, before `shared` goes.
    const py::gil_scoped_release released;
    std::jthread thread([&](const std::stop_token& stop) {
      work(stop);
      const std::lock_guard<std::mutex> lock(shared.mutex);
      shared.ended = true;
      shared.changed.notify_one();
    });
    for (bool ended = false; !ended;) {
      auto [deliveries, has_ended] = shared.Wait();
      ended = has_ended;
      const py::gil_scoped_acquire acquired;
      try {
        if (!thread.get_stop_token().stop_requested()) {
          for (const Delivery& deliver : deliveries) deliver();
          if (PyErr_CheckSignals() != 0) throw py::error_already_set();
          if (!cancelled.is_none() && cancelled().cast<bool>()) {
            was_cancelled_ = true;
            thread.request_stop();
          }
        }
      } catch (...) {
        failure = std::current_exception();
        thread.request_stop();
      }
      deliveries.clear();
    }
  }
  shared_ = nullptr;
  if (failure) std::rethrow_exception(failure);
}

void Job::Deliver(Delivery deliver) {
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  shared_->deliveries.push_back(std::move(deliver));
  shared_->changed.notify_one();
}

void Job::DeliverLatest(Delivery deliver) {
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  shared_->latest = std::move(deliver);
}

}  // namespace stowage
