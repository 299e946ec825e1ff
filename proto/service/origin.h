// How an answer was obtained: whoever runs the solvers fills this in.
#ifndef STOWAGE_PROTO_SERVICE_ORIGIN_H_
#define STOWAGE_PROTO_SERVICE_ORIGIN_H_

#include <string>

#include "absl/strings/string_view.h"

namespace stowage {

struct Origin {
  enum class Source {
    kSolved,       // for this request
    kMemoryCache,  // by the server before, and kept in memory
    kDiskCache,    // likewise, and kept on disk
    kCoalesced,    // for an equal request at the same time
    kSharedCache,  // by one of the servers that share a cache
  };

  Source source = Source::kSolved;
  double queue_seconds = 0;      // waiting for a free solver thread
  double solve_seconds = 0;      // solving and checking
  std::string fingerprint = {};  // 64 hexadecimal digits; empty without a server
};

// "MEMORY_CACHE", as in JSON.
inline absl::string_view SourceName(Origin::Source source) {
  switch (source) {
    case Origin::Source::kSolved:
      return "SOLVED";
    case Origin::Source::kMemoryCache:
      return "MEMORY_CACHE";
    case Origin::Source::kDiskCache:
      return "DISK_CACHE";
    case Origin::Source::kSharedCache:
      return "SHARED_CACHE";
    case Origin::Source::kCoalesced:
      return "COALESCED";
  }
  return "";
}

}  // namespace stowage

#endif  // STOWAGE_PROTO_SERVICE_ORIGIN_H_
