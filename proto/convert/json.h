// JSON in and out: protobuf's mapping with snake_case names, as solver/README.md and
// server/README.md define it.
#ifndef STOWAGE_PROTO_CONVERT_JSON_H_
#define STOWAGE_PROTO_CONVERT_JSON_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "stowage/v1/model.pb.h"

namespace stowage {

// Fills `message`, which errors call `root`. Errors: INVALID_ARGUMENT, one line that names the
// field, and the place where the text is not JSON, as in
//   "chain.stages[3].forward_secnds: unknown field"
//   "chain.stages[3]: line 12, column 9: not JSON: unexpected end of input; expected '}'"
//   "chain: is UTF-16; convert it to UTF-8".
// What they repeat of the text is valid UTF-8: other bytes are escaped as "\xff".
absl::Status FromJson(absl::string_view json, absl::string_view root,
                      google::protobuf::Message* message);

// A schedule from a bare one ({"operations": …}) or from a whole Solve answer, which also says what
// it was solved for; without memory_bytes when it does not.
struct ScheduleFile {
  v1::Schedule schedule;
  v1::Platform platform;
};
absl::StatusOr<ScheduleFile> ScheduleFromJson(absl::string_view json);

// Indented, every field without presence printed but for the warnings of an answer without any,
// 64-bit integers as strings, ends with a newline.
std::string ToJson(const google::protobuf::Message& message);
// The same fields without white space, safe between HTML's tags: holds no "<".
std::string ToHtmlJson(const google::protobuf::Message& message);

}  // namespace stowage

#endif  // STOWAGE_PROTO_CONVERT_JSON_H_
