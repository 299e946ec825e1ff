// Answers as tiers store them: in bytes that outlive the process and may come back damaged.
#ifndef STOWAGE_SERVER_CACHE_TIERS_STORED_ANSWER_H_
#define STOWAGE_SERVER_CACHE_TIERS_STORED_ANSWER_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "server/cache/cache_keys.h"
#include "server/cache/cache_tier.h"

namespace stowage {

// Raised when the bytes mean something else: what was stored before is then dropped.
inline constexpr int kStoredVersion = 2;

// The schedule, whose solver's it is, and the keys; not the owner. Thread-safe, as the others.
std::string EncodeAnswer(const CachedAnswer& cached);

// The same. Null: no server of this version wrote this. The answer is to be trusted as any tier's.
CachedAnswerPtr DecodeAnswer(absl::string_view bytes, std::string owner);

// Finds damage, and bytes that were stored under another key. Against accidents, not forgers.
uint64_t StoredChecksum(const Fingerprint& key, absl::string_view bytes);

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_TIERS_STORED_ANSWER_H_
