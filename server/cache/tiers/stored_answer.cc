#include "server/cache/tiers/stored_answer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "proto/convert/answer_message.h"
#include "stowage/v1/store.pb.h"
#include "xxhash.h"

namespace stowage {
namespace {

std::string BytesOf(const Fingerprint& key) { return {key.bytes.begin(), key.bytes.end()}; }

// nullopt: `bytes` are no fingerprint.
std::optional<Fingerprint> KeyFrom(const std::string& bytes) {
  Fingerprint key;
  if (bytes.size() != key.bytes.size()) return std::nullopt;
  std::copy(bytes.begin(), bytes.end(), key.bytes.begin());
  return key;
}

}  // namespace

// What is left out is computed again, on the chain of the request that hits, or dropped.
std::string EncodeAnswer(const CachedAnswer& cached) {
  v1::StoredAnswer stored;
  v1::SolveResponse& message = *stored.mutable_answer();
  Fill(cached.answer, Origin(), &message);
  message.clear_prediction();
  message.clear_explanation();
  message.clear_minimum_memory_bytes();
  message.clear_rounding_loss();
  stored.set_from_exact_sizes(cached.answer.from_exact_sizes);
  stored.set_rounded(BytesOf(cached.keys.rounded));
  stored.set_exact_sizes(BytesOf(cached.keys.exact_sizes));
  stored.set_exact(BytesOf(cached.keys.exact));
  return stored.SerializeAsString();
}

CachedAnswerPtr DecodeAnswer(absl::string_view bytes, std::string owner) {
  v1::StoredAnswer stored;
  if (!stored.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return nullptr;
  absl::StatusOr<Answer> answer = AnswerFromMessage(stored.answer());
  const std::optional<Fingerprint> rounded = KeyFrom(stored.rounded());
  const std::optional<Fingerprint> exact_sizes = KeyFrom(stored.exact_sizes());
  const std::optional<Fingerprint> exact = KeyFrom(stored.exact());
  if (!answer.ok() || !rounded || !exact_sizes || !exact) return nullptr;
  answer->from_exact_sizes = stored.from_exact_sizes();
  return std::make_shared<const CachedAnswer>(
      CachedAnswer{*std::move(answer), {*rounded, *exact_sizes, *exact}, std::move(owner)});
}

// The first bytes of the key are the seed.
uint64_t StoredChecksum(const Fingerprint& key, absl::string_view bytes) {
  uint64_t seed = 0;
  std::memcpy(&seed, key.bytes.data(), sizeof(seed));
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace stowage
