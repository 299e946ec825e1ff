// The work that waits in a queue, in a line for each client.
#ifndef STOWAGE_SERVER_ENGINE_QUEUE_CLIENT_LINES_H_
#define STOWAGE_SERVER_ENGINE_QUEUE_CLIENT_LINES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/engine/queue/work.h"

namespace stowage {

// Clients take turns. Work that several clients share is in the line of each. Short work has turns
// of its own, beside its place in the turns of all work. Not thread-safe: WorkQueue's lock guards
// it.
class ClientLines {
 public:
  enum class Kind { kAll, kShort };

  // Puts work at the end of its client's line. Returns its ticket, which is never 0 and grows.
  uint64_t Add(Work work);
  // Puts waiting work at the end of another client's line, too. False: it does not wait, or is in
  // that line already.
  bool Share(uint64_t ticket, const std::string& client);
  // Takes it out of a client's line. False: it is not there, or in no other line: then it stays
  // until another client shares it, so that it runs, if only to report that nobody waits for it.
  bool Unshare(uint64_t ticket, const std::string& client);
  // Takes it out of all lines. Requires: it waits.
  Work Remove(uint64_t ticket);

  // Removes the work whose callers have left. O(waiting work).
  std::vector<Work> RemoveStopped();
  // Work that lost its place, and its clients.
  struct Dropped {
    Work work;
    std::vector<std::string> clients;
  };
  // Removes work whose clients all have so long a line that it is still not the shorter one once
  // `client` has the place: lines become equal, and then nobody gains. Of such work the newest of
  // those whose shortest line is the longest. nullopt: there is none. O(waiting work and its
  // clients).
  std::optional<Dropped> MakeRoomFor(const std::string& client);

  // Requires: it waits.
  const Work& work(uint64_t ticket) const { return waiting_.at(ticket).work; }
  size_t waiting() const { return waiting_.size(); }
  size_t waiting_of(const std::string& client) const;
  // In the queue: readmitted work takes none.
  size_t places() const { return waiting_.size() - readmitted_; }

  // Clients with waiting work of that kind, next first.
  const std::deque<std::string>& turns(Kind kind) const {
    return kind == Kind::kAll ? turns_ : short_turns_;
  }
  // The waiting work of a client, next first. Requires: the client has a turn.
  const std::deque<uint64_t>& tickets(Kind kind, const std::string& client) const {
    const Line& line = lines_.at(client);
    return kind == Kind::kAll ? line.tickets : line.short_tickets;
  }
  // The client goes to the end of the turns of that kind. Requires: it has one.
  void EndTurn(Kind kind, const std::string& client);

 private:
  struct Line {
    std::deque<uint64_t> tickets;
    std::deque<uint64_t> short_tickets;  // those of them that are short
    size_t places = 0;                   // of the tickets
  };
  using Lines = std::map<std::string, Line>;
  struct Waiting {
    Work work;
    std::vector<Lines::value_type*> lines;  // never empty
    bool is_left = false;                   // the only client no longer waits
  };

  void Append(uint64_t ticket, const std::string& client);
  void Leave(uint64_t ticket, Lines::value_type* line);
  // Null: the client does not wait for the work.
  static Lines::value_type* LineOf(const Waiting& waiting, const std::string& client);
  static size_t ShortestLine(const Waiting& waiting);

  absl::flat_hash_map<uint64_t, Waiting> waiting_;  // by ticket
  size_t readmitted_ = 0;                           // of those
  uint64_t last_ticket_ = 0;
  Lines lines_;  // by client; never empty ones
  std::deque<std::string> turns_;
  std::deque<std::string> short_turns_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_QUEUE_CLIENT_LINES_H_
