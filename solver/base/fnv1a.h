// FNV-1a, 64 bits: a hash that is the same in every process, version and language. Not for keys
// that somebody may forge.
#ifndef STOWAGE_SOLVER_BASE_FNV1A_H_
#define STOWAGE_SOLVER_BASE_FNV1A_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace stowage {

constexpr uint64_t Fnv1a(absl::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_FNV1A_H_
