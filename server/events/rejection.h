// The statuses of rejected requests, and their reasons as programs read them.
#ifndef STOWAGE_SERVER_EVENTS_REJECTION_H_
#define STOWAGE_SERVER_EVENTS_REJECTION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace stowage {

// Payloads of the status of a rejected request: the reason in a word ("queue_full"), unset where
// the code is reason enough; and the seconds after which to try again, as decimal text.
inline constexpr const char* kRejectionPayload = "stowage.rejection";
inline constexpr const char* kRetryPayload = "stowage.retry_after_seconds";

// RESOURCE_EXHAUSTED, for which trying again after `retry_after_seconds` helps; 0: it does not.
inline absl::Status Rejected(const char* reason, absl::string_view message,
                             double retry_after_seconds) {
  absl::Status status = absl::ResourceExhaustedError(message);
  status.SetPayload(kRejectionPayload, absl::Cord(reason));
  if (retry_after_seconds > 0) {
    status.SetPayload(kRetryPayload, absl::Cord(absl::StrCat(retry_after_seconds)));
  }
  return status;
}

// The reason of a rejection; empty: the status is none.
inline std::string RejectionOf(const absl::Status& status) {
  if (const auto reason = status.GetPayload(kRejectionPayload)) return std::string(*reason);
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return "invalid";
    case absl::StatusCode::kResourceExhausted:
      return "solve_memory";
    case absl::StatusCode::kUnavailable:
      return "draining";
    case absl::StatusCode::kUnauthenticated:
      return "unauthenticated";
    default:
      return "";
  }
}

// The status of a request for which the machine, not a limit of the server, has too little memory.
inline absl::Status TooLittleFreeMemory() {
  return Rejected("memory", "the server has too little free memory; try again", 1);
}

}  // namespace stowage

#endif  // STOWAGE_SERVER_EVENTS_REJECTION_H_
