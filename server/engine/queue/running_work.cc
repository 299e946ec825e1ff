#include "server/engine/queue/running_work.h"

#include <algorithm>
#include <iterator>

#include "solver/base/time/clock.h"

namespace stowage {

void RunningWork::Start(const Started& started) {
  Client& client = clients_[started.client];
  ++client.count;
  client.bytes += started.bytes;
  ++count_;
  bytes_ += started.bytes;
  if (started.lane == Lane::kAll) {
    ++client.holds;
    began_.insert(started.at);
  } else {
    client.in_lane.insert(started.at);
  }
  if (started.lane == Lane::kShort) short_began_.insert(started.at);
}

void RunningWork::Finish(const Started& started) {
  const auto found = clients_.find(started.client);
  Client& client = found->second;
  --client.count;
  client.bytes -= started.bytes;
  --count_;
  bytes_ -= started.bytes;
  if (started.lane == Lane::kAll) {
    --client.holds;
    began_.erase(began_.find(started.at));
  } else {
    client.in_lane.erase(client.in_lane.find(started.at));
  }
  if (started.lane == Lane::kShort) short_began_.erase(short_began_.find(started.at));
  if (client.count == 0) clients_.erase(found);
}

RunningWork::Clock::time_point RunningWork::ServesFrom(Lane lane) const {
  switch (lane) {
    case Lane::kAll:
      if (!HasNoThreadLeft()) return Clock::time_point::min();
      return After(*std::prev(began_.end(), static_cast<ptrdiff_t>(limits_.threads)),
                   limits_.turn_seconds);
    case Lane::kShort:
      return Clock::time_point::min();
    case Lane::kSpare:
      if (short_began_.size() < limits_.short_threads) return Clock::time_point::max();
      return After(*short_began_.rbegin(), limits_.overstay_seconds);
  }
  return Clock::time_point::max();
}

size_t RunningWork::FreeThreadsFor(const Work& work) const {
  if (!work.is_short) return limits_.threads - std::min(limits_.threads, began_.size());
  const size_t with_short = limits_.threads + limits_.short_threads;
  return with_short - std::min(with_short, count_);
}

bool RunningWork::HasRoomFor(const Work& next) const {
  return bytes_ + next.bytes <= limits_.max_bytes || next.stop.stop_requested();
}

bool RunningWork::HasItsMemory(const std::string& client, const Work& next) const {
  const Client& running = Of(client);
  if (running.count == 0 || next.stop.stop_requested()) return false;
  return next.bytes > limits_.max_bytes / 4 * 3 - running.bytes;
}

bool RunningWork::HasItsShare(const std::string& client) const {
  return limits_.threads > 1 && Of(client).holds + 1 >= limits_.threads;
}

bool RunningWork::Overstays(const std::string& client, Clock::time_point now) const {
  const Client& running = Of(client);
  return !running.in_lane.empty() &&
         now >= After(*running.in_lane.begin(), limits_.overstay_seconds);
}

const RunningWork::Client& RunningWork::Of(const std::string& client) const {
  static const Client none{};
  const auto found = clients_.find(client);
  return found != clients_.end() ? found->second : none;
}

}  // namespace stowage
