// The text of a request, by which the cache finds the response to an equal one without parsing it:
// the ranks of a job send the same bytes at start-up, and the job sends them again when it
// restarts. Parsing a chain of a hundred stages and serializing its schedule take several times as
// long as everything else that a cache hit needs.
#ifndef STOWAGE_SERVER_RPC_MESSAGES_REQUEST_TEXT_H_
#define STOWAGE_SERVER_RPC_MESSAGES_REQUEST_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace stowage {

// The bytes of a v1::SolveRequest without the chain's provenance, which no answer depends on and
// which holds maps, whose entries are serialized in any order. Different requests have different
// texts. `request` itself where it has no provenance; else the text lies in `storage`. Empty: the
// bytes are not a message, or have groups, which no message of ours has. O(bytes). Throws
// std::bad_alloc without enough memory. Thread-safe.
absl::string_view RequestText(absl::string_view request, std::string* storage);

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_MESSAGES_REQUEST_TEXT_H_
