#include "client/lib/rpc/trace_parent.h"

#include "absl/strings/string_view.h"

namespace stowage {

// Other characters than these would fail the call; the server ignores what else is wrong.
std::string TraceParent(absl::FunctionRef<const char*(const char* variable)> environment) {
  constexpr size_t kBytes = 55;
  const char* const value = environment("TRACEPARENT");
  const absl::string_view text = value == nullptr ? "" : value;
  const bool may_be_sent =
      text.size() == kBytes && text.find_first_not_of("0123456789abcdef-") == text.npos;
  return may_be_sent ? std::string(text) : "";
}

}  // namespace stowage
