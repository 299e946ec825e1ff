// What `stowage top --format json` prints of a server's figures. Pure.
#ifndef STOWAGE_CLIENT_CLI_TOP_TOP_JSON_H_
#define STOWAGE_CLIENT_CLI_TOP_TOP_JSON_H_

#include <string>

#include "client/cli/top/top_text.h"

namespace stowage {

// One object on a line. What there is no figure for is null; all of the server's figures are left
// out while it does not answer, when "problem" says why.
std::string TopJson(const TopView& view);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_TOP_TOP_JSON_H_
