// The page of this folder, as one HTML document that needs nothing else: embedded in the programs.
#ifndef STOWAGE_SERVER_WEB_PAGE_H_
#define STOWAGE_SERVER_WEB_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace stowage {

// The document that shows `view_json`: a View of view.proto. Its Content-Security-Policy allows its
// own script and style by their hashes and nothing of another host. Thread-safe.
// Requires: `view_json` is JSON without "<", as of ToHtmlJson().
std::string PageOf(absl::string_view view_json);

}  // namespace stowage

#endif  // STOWAGE_SERVER_WEB_PAGE_H_
