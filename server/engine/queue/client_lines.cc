#include "server/engine/queue/client_lines.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"

namespace stowage {

uint64_t ClientLines::Add(Work work) {
  const std::string client = work.client;
  if (work.is_readmitted) ++readmitted_;
  waiting_.emplace(++last_ticket_, Waiting{std::move(work), {}});
  Append(last_ticket_, client);
  return last_ticket_;
}

bool ClientLines::Share(uint64_t ticket, const std::string& client) {
  const auto found = waiting_.find(ticket);
  if (found == waiting_.end()) return false;
  Waiting& waiting = found->second;
  const bool replaces = std::exchange(waiting.is_left, false);
  if (LineOf(waiting, client) != nullptr) return false;
  Append(ticket, client);
  if (replaces) Leave(ticket, waiting.lines.front());
  return true;
}

bool ClientLines::Unshare(uint64_t ticket, const std::string& client) {
  const auto found = waiting_.find(ticket);
  if (found == waiting_.end()) return false;
  Waiting& waiting = found->second;
  Lines::value_type* const line = LineOf(waiting, client);
  if (line == nullptr) return false;
  if (waiting.lines.size() == 1) {
    waiting.is_left = true;
    return false;
  }
  Leave(ticket, line);
  return true;
}

Work ClientLines::Remove(uint64_t ticket) {
  const auto found = waiting_.find(ticket);
  while (!found->second.lines.empty()) Leave(ticket, found->second.lines.back());
  Work work = std::move(found->second.work);
  waiting_.erase(found);
  if (work.is_readmitted) --readmitted_;
  return work;
}

std::vector<Work> ClientLines::RemoveStopped() {
  std::vector<uint64_t> tickets;
  for (const auto& [ticket, waiting] : waiting_) {
    if (waiting.work.stop.stop_requested()) tickets.push_back(ticket);
  }
  std::vector<Work> stopped;
  stopped.reserve(tickets.size());
  for (const uint64_t ticket : tickets) stopped.push_back(Remove(ticket));
  return stopped;
}

std::optional<ClientLines::Dropped> ClientLines::MakeRoomFor(const std::string& client) {
  const auto asking = lines_.find(client);
  const size_t places = asking != lines_.end() ? asking->second.places : 0;
  std::pair<size_t, uint64_t> longest = {1 + places, UINT64_MAX};  // a line, and work in it
  for (const auto& [ticket, waiting] : waiting_) {
    if (waiting.work.drop == nullptr || waiting.work.is_readmitted) continue;
    longest = std::max(longest, {ShortestLine(waiting), ticket});
  }
  const uint64_t newest = longest.second;
  if (newest == UINT64_MAX) return std::nullopt;
  std::vector<std::string> clients;
  for (const auto* line : waiting_[newest].lines) clients.push_back(line->first);
  return Dropped{Remove(newest), std::move(clients)};
}

size_t ClientLines::waiting_of(const std::string& client) const {
  const auto line = lines_.find(client);
  return line != lines_.end() ? line->second.tickets.size() : 0;
}

void ClientLines::EndTurn(Kind kind, const std::string& client) {
  std::deque<std::string>& turns = kind == Kind::kAll ? turns_ : short_turns_;
  const auto turn = absl::c_find(turns, client);
  std::rotate(turn, turn + 1, turns.end());
}

void ClientLines::Append(uint64_t ticket, const std::string& client) {
  Waiting& waiting = waiting_[ticket];
  Lines::value_type& entry = *lines_.try_emplace(client).first;
  waiting.lines.push_back(&entry);
  Line& line = entry.second;
  if (line.tickets.empty()) turns_.push_back(client);
  line.tickets.push_back(ticket);
  if (!waiting.work.is_readmitted) ++line.places;
  if (!waiting.work.is_short) return;
  if (line.short_tickets.empty()) short_turns_.push_back(client);
  line.short_tickets.push_back(ticket);
}

// A client whose line is empty loses its turn and is forgotten.
void ClientLines::Leave(uint64_t ticket, Lines::value_type* entry) {
  auto& [client, line] = *entry;
  Waiting& waiting = waiting_[ticket];
  std::erase(waiting.lines, entry);
  std::erase(line.tickets, ticket);
  std::erase(line.short_tickets, ticket);
  if (!waiting.work.is_readmitted) --line.places;
  if (line.short_tickets.empty()) std::erase(short_turns_, client);
  if (!line.tickets.empty()) return;
  std::erase(turns_, client);
  lines_.erase(lines_.find(client));
}

ClientLines::Lines::value_type* ClientLines::LineOf(const Waiting& waiting,
                                                    const std::string& client) {
  const auto found =
      absl::c_find_if(waiting.lines, [&](const auto* line) { return line->first == client; });
  return found != waiting.lines.end() ? *found : nullptr;
}

size_t ClientLines::ShortestLine(const Waiting& waiting) {
  size_t shortest = SIZE_MAX;
  for (const auto* line : waiting.lines) shortest = std::min(shortest, line->second.places);
  return shortest;
}

}  // namespace stowage
