#include "server/net/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

namespace stowage {
namespace {

// A connection without calls takes about 12 KiB, so that many take half a GiB.
constexpr rlim_t kMaxConnections = 40'000;
constexpr rlim_t kOwnFiles = 64;  // disk cache, log, listeners, libraries

}  // namespace

void AllowAllFiles() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

// Where the limit is very low, half of it is left for connections.
int MostConnectionDescriptors() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const rlim_t reserve = std::min<rlim_t>(kMaxHttpConnections + kOwnFiles, files.rlim_cur / 2);
  return static_cast<int>(std::min(files.rlim_cur - reserve, kMaxConnections));
}

}  // namespace stowage
