// The page of this folder, as one HTML document that needs nothing else: embedded in the programs.
#ifndef STOWAGE_SERVER_WEB_PAGE_H_
#define STOWAGE_SERVER_WEB_PAGE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace stowage {

// The document that shows `view_json`: a View of view.proto. Its Content-Security-Policy allows its
// own script and style by their hashes and nothing of another host. Thread-safe.
// Requires: `view_json` is JSON without "<", as of ToHtmlJson().
std::string PageOf(absl::string_view view_json);

// The document that shows the server that serves it, whose status it reads at "status" beside it,
// with a token that it asks for where one is needed. Thread-safe.
std::string ServicePage(bool needs_token);

// Headers for who serves either: it is in no other site's frame and in no cache, and stays what it
// is. Thread-safe.
std::vector<std::pair<std::string, std::string>> PageHeaders();

}  // namespace stowage

#endif  // STOWAGE_SERVER_WEB_PAGE_H_
