// The output of `stowage top --format json`. Pure.
#ifndef STOWAGE_CLIENT_CLI_TOP_TOP_JSON_H_
#define STOWAGE_CLIENT_CLI_TOP_TOP_JSON_H_

#include <string>

#include "client/cli/top/top_text.h"

namespace stowage {

// One JSON object on one line. A figure that does not exist is null. While the server does not
// answer, "problem" has the reason and the object has no figures.
std::string TopJson(const TopView& view);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_TOP_TOP_JSON_H_
