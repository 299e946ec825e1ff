// Cache keys without a request, for tests of what stores answers.
#ifndef STOWAGE_TESTS_SUPPORT_NUMBERED_KEYS_H_
#define STOWAGE_TESTS_SUPPORT_NUMBERED_KEYS_H_

#include <cstdint>
#include <cstring>

#include "server/cache/cache_keys.h"

namespace stowage {

inline Fingerprint NumberedKey(uint64_t number, uint8_t kind) {
  Fingerprint key;
  std::memcpy(key.bytes.data(), &number, sizeof(number));
  key.bytes.back() = kind;
  return key;
}

// Different for different numbers.
inline CacheKeys NumberedKeys(uint64_t number) {
  return {NumberedKey(number, 1), NumberedKey(number, 2), NumberedKey(number, 3)};
}

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_NUMBERED_KEYS_H_
