// The rate of cache hits beside that of a bare gRPC echo of the same message sizes, on one machine.
#ifndef STOWAGE_TESTS_BENCHMARK_HIT_COMPARISON_H_
#define STOWAGE_TESTS_BENCHMARK_HIT_COMPARISON_H_

#include <cstddef>
#include <string>

namespace stowage {

// Each caller sends its next call when it has the answer to the last one.
struct Load {
  int callers = 1;
  int connections = 1;  // that the callers share evenly
};

// Medians of the turns.
struct Throughput {
  double per_second = 0;
  double p99_seconds = 0;
};

struct HitComparison {
  Throughput hits;
  Throughput echoes;
  double ratio = 0;  // of the rates: the median of the ratios of the turns
  size_t response_bytes = 0;
};

// Starts a server, which gets the serialized SolveRequest `request` again and again, and an echo:
// `program` with --echo and the size of its responses, which calls ServeEcho(). They take turns,
// since a machine's speed changes within seconds; each has `seconds` in all. The default options of
// gRPC are the echo's, and the server's limits on connections are the server's: both have their
// part in the ratio. Client and servers share the cores.
HitComparison CompareWithEcho(const char* program, const std::string& request, const Load& load,
                              double seconds);

// This program as the echo, until it is killed: answers every call with so many bytes.
int ServeEcho(size_t bytes);

}  // namespace stowage

#endif  // STOWAGE_TESTS_BENCHMARK_HIT_COMPARISON_H_
