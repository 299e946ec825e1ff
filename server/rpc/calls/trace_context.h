// The trace that a call belongs to, as W3C Trace Context's header `traceparent` names it.
#ifndef STOWAGE_SERVER_RPC_CALLS_TRACE_CONTEXT_H_
#define STOWAGE_SERVER_RPC_CALLS_TRACE_CONTEXT_H_

#include <optional>

#include "absl/strings/string_view.h"

namespace stowage {

// "00-TRACE-PARENT-FLAGS", in hexadecimal digits.
struct TraceParent {
  absl::string_view trace = {};   // 32 digits
  absl::string_view parent = {};  // 16, of the caller's span
  bool is_sampled = false;        // the caller records the trace
};

// nullopt: the text is not a valid traceparent, which the caller of the service then does not have.
// Borrows `traceparent`.
std::optional<TraceParent> ParseTraceParent(absl::string_view traceparent);

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_CALLS_TRACE_CONTEXT_H_
