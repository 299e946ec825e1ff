#include "server/web/page.h"

#include <cassert>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace stowage {

// bundle/page.html, by stowage_embed() of CMake.
extern const unsigned char page_html[];     // NOLINT(readability-identifier-naming)
extern const unsigned long page_html_size;  // NOLINT

std::string PageOf(absl::string_view view_json) {
  // What build.mjs writes where the data goes.
  constexpr absl::string_view kPlace = "@VIEW@";
  const absl::string_view page(reinterpret_cast<const char*>(page_html), page_html_size);
  const size_t at = page.find(kPlace);
  assert(at != absl::string_view::npos);
  return absl::StrCat(page.substr(0, at), view_json, page.substr(at + kPlace.size()));
}

std::string ServicePage(bool needs_token) {
  return PageOf(
      absl::StrCat(R"({"service":{"needs_token":)", needs_token ? "true" : "false", "}}"));
}

std::vector<std::pair<std::string, std::string>> PageHeaders() {
  return {
      {"Cache-Control", "no-store"},
      {"Content-Security-Policy", "frame-ancestors 'none'"},  // the rest is in the page
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Referrer-Policy", "no-referrer"},
      {"X-Content-Type-Options", "nosniff"},
  };
}

}  // namespace stowage
