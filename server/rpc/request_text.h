// The text of a request, by which the cache finds the response to an equal one without parsing it:
// the ranks of a job send the same bytes at start-up, and the job sends them again when it
// restarts. Parsing a chain of a hundred stages and serializing its schedule take several times as
// long as everything else that a cache hit needs.
#ifndef STOWAGE_SERVER_RPC_REQUEST_TEXT_H_
#define STOWAGE_SERVER_RPC_REQUEST_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace stowage {

// The bytes of a v1::SolveRequest without the chain's provenance, which no answer depends on and
// which holds maps, whose entries are serialized in any order. Different requests have different
// texts. Empty: the bytes are not a message, or have too many tiny fields to be worth caching.
// O(bytes). Thread-safe.
std::string RequestText(absl::string_view request);

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_REQUEST_TEXT_H_
