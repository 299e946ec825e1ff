// The trace that a call belongs to, as W3C Trace Context's header `traceparent` names it.
#ifndef STOWAGE_SERVER_RPC_TRACE_CONTEXT_H_
#define STOWAGE_SERVER_RPC_TRACE_CONTEXT_H_

#include "absl/strings/string_view.h"

namespace stowage {

// The trace id, 32 hexadecimal digits, of "00-TRACE-PARENT-FLAGS"; empty: the text is not a valid
// traceparent, which the caller of the service then does not have. Borrows `traceparent`.
absl::string_view TraceIdOf(absl::string_view traceparent);

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_TRACE_CONTEXT_H_
