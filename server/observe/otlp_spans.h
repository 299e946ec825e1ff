// Traced calls as the spans of OTLP. server/README.md, "Traces", has their names and attributes.
#ifndef STOWAGE_SERVER_OBSERVE_OTLP_SPANS_H_
#define STOWAGE_SERVER_OBSERVE_OTLP_SPANS_H_

#include <chrono>
#include <string>
#include <vector>

#include "otlp/trace.pb.h"
#include "server/events/observer.h"

namespace stowage {

// What a collector learns of the process.
struct TraceResource {
  std::string version = {};
  std::string instance = {};  // tells it from the other servers
};

// One moment on both clocks: spans are timed by the one, and sent with the times of the other.
struct TwoClocks {
  std::chrono::steady_clock::time_point steady = std::chrono::steady_clock::now();
  std::chrono::system_clock::time_point system = std::chrono::system_clock::now();
};

// Pure.
otlp::ExportTraceServiceRequest OtlpRequest(const std::vector<TracedCall>& calls,
                                            const TraceResource& resource, const TwoClocks& now);

}  // namespace stowage

#endif  // STOWAGE_SERVER_OBSERVE_OTLP_SPANS_H_
