// Matchers for absl::Status and StatusOr; GoogleTest 1.12 has none.
#ifndef STOWAGE_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define STOWAGE_TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"

namespace stowage {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// EXPECT_THAT(Call(), IsOk());
MATCHER(IsOk, "") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

// EXPECT_THAT(Call(), Fails(absl::StatusCode::kInvalidArgument, HasSubstr("stage 3")));
MATCHER_P2(Fails, code, message, "") {
  const absl::Status& status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         testing::ExplainMatchResult(message, std::string(status.message()), result_listener);
}

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_STATUS_MATCHERS_H_
