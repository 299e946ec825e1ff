// What a thread of a queue runs, and what the queue has to know about it.
#ifndef STOWAGE_SERVER_ENGINE_QUEUE_WORK_H_
#define STOWAGE_SERVER_ENGINE_QUEUE_WORK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace stowage {

struct Work {
  absl::AnyInvocable<void()> run;            // must not throw
  std::string client = {};                   // clients take turns
  int64_t bytes = 0;                         // of memory, while it runs
  std::optional<size_t> max_of_client = {};  // unset: WorkQueue::Options::max_of_a_client
  bool is_short = false;                     // expected to take milliseconds
  // Finishes requests that were admitted before: neither a full queue nor the limit of the client
  // refuses it, and it takes no place in the queue.
  bool is_readmitted = false;
  // Once set nobody waits for the work. It still runs, to report that, but needs no room in memory.
  std::stop_token stop = {};
  // Called instead of `run` where the work loses its place in a full queue, with its clients, whose
  // lines were all too long, and RESOURCE_EXHAUSTED. Comes from whoever adds work. Empty: it keeps
  // its place.
  using Drop = void(const std::vector<std::string>& clients, const absl::Status& status);
  absl::AnyInvocable<Drop> drop = {};
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_QUEUE_WORK_H_
