// What makes options valid: those that are text are parsed, and all are checked, alone and
// together.
#ifndef STOWAGE_SERVER_OPTION_CHECKS_H_
#define STOWAGE_SERVER_OPTION_CHECKS_H_

#include "absl/status/status.h"
#include "server/server_flags.h"
#include "server/server_options.h"

namespace stowage {

// Payload of an error that is about one option: its flag, "--grace".
inline constexpr const char* kOptionPayload = "stowage.option";

// Checks `options` and fills in those of `texts`. Reads the files of --shared-cache once, so that a
// wrong one stops the start. Errors: INVALID_ARGUMENT with the first option that is wrong and the
// remedy, as in "--grace: must be at most a day (86400s)"; those of ReadRedisLogin().
absl::Status CompleteOptions(const TextOptions& texts, ServerOptions* options);

}  // namespace stowage

#endif  // STOWAGE_SERVER_OPTION_CHECKS_H_
