// A work queue with one thread, for tests of the order of work.
#ifndef STOWAGE_TESTS_UNIT_SERVER_ENGINE_ONE_THREAD_H_
#define STOWAGE_TESTS_UNIT_SERVER_ENGINE_ONE_THREAD_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "server/engine/queue/work_queue.h"
#include "server/events/rejection.h"
#include "tests/support/status_matchers.h"

namespace stowage {

// One thread that is busy until it is let go, and the order in which the others' work ran after
// that.
class OneThread {
 public:
  explicit OneThread(WorkQueue::Options options = {})
      : queue_({.threads = 1,
                .max_waiting = options.max_waiting > 0 ? options.max_waiting : 100,
                .max_of_a_client = options.max_of_a_client,
                .max_bytes = options.max_bytes}) {
    std::promise<void> begun;
    EXPECT_THAT(queue_.Add({.run =
                                [this, &begun] {
                                  begun.set_value();
                                  go_.get_future().wait();
                                },
                            .client = "busy"}),
                IsOk());
    begun.get_future().wait();
  }
  ~OneThread() {
    if (!gone_) go_.set_value();
  }
  absl::StatusOr<uint64_t> Add(const std::string& client, const std::string& name,
                               int64_t bytes = 0) {
    return queue_.Add(
        {.run = [this, name] { order_ += name; },
         .client = client,
         .bytes = bytes,
         .drop =
             [this, name](const std::vector<std::string>& losers, const absl::Status& status) {
               dropped_ += name + " of " + absl::StrJoin(losers, ", ") + ";";
               EXPECT_EQ(RejectionOf(status), "queue_full");
               EXPECT_TRUE(status.GetPayload(kRetryPayload).has_value());
             }});
  }
  absl::StatusOr<uint64_t> Readmit(const std::string& client, const std::string& name) {
    return queue_.Add(
        {.run = [this, name] { order_ += name; }, .client = client, .is_readmitted = true});
  }
  void Share(uint64_t ticket, const std::string& client) { queue_.Share(ticket, client); }
  // Adds work of the first of `clients`, which the others share.
  void AddShared(const std::vector<std::string>& clients, const std::string& name) {
    const auto ticket = Add(clients.front(), name);
    ASSERT_THAT(ticket, IsOk());
    for (const std::string& client : clients) Share(*ticket, client);
  }
  void Unshare(uint64_t ticket, const std::string& client) { queue_.Unshare(ticket, client); }
  const std::string& dropped() const { return dropped_; }
  std::string Order() {
    gone_ = true;
    go_.set_value();
    EXPECT_TRUE(queue_.WaitUntilIdle(std::chrono::steady_clock::now() + std::chrono::seconds(60)));
    return order_;
  }

 private:
  std::promise<void> go_;
  bool gone_ = false;
  std::string order_;    // written by the one thread
  std::string dropped_;  // written by the test's
  WorkQueue queue_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_UNIT_SERVER_ENGINE_ONE_THREAD_H_
