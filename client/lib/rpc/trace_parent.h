// The trace that a process' calls belong to.
#ifndef STOWAGE_CLIENT_LIB_RPC_TRACE_PARENT_H_
#define STOWAGE_CLIENT_LIB_RPC_TRACE_PARENT_H_

#include <cstdlib>
#include <string>

#include "absl/functional/function_ref.h"

namespace stowage {

inline constexpr char kTraceParentHeader[] = "traceparent";

// What the variable TRACEPARENT says, as W3C Trace Context has it:
// "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01". Empty: nothing that may be sent.
std::string TraceParent(
    absl::FunctionRef<const char*(const char* variable)> environment = std::getenv);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_RPC_TRACE_PARENT_H_
