#include "proto/convert/stored_answer.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "proto/convert/answer_message.h"

namespace stowage {

// What is left out the cache computes again, on the chain of the request that hits, or drops.
v1::StoredAnswer ToStored(const Answer& answer) {
  v1::StoredAnswer stored;
  v1::SolveResponse& message = *stored.mutable_answer();
  Fill(answer, Origin(), &message);
  message.clear_prediction();
  message.clear_explanation();
  message.clear_minimum_memory_bytes();
  message.clear_rounding_loss();
  stored.set_from_exact_sizes(answer.from_exact_sizes);
  return stored;
}

std::optional<Answer> FromStored(const v1::StoredAnswer& stored) {
  absl::StatusOr<Answer> answer = AnswerFromMessage(stored.answer());
  if (!answer.ok()) return std::nullopt;
  answer->from_exact_sizes = stored.from_exact_sizes();
  return *std::move(answer);
}

}  // namespace stowage
