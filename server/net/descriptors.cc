#include "server/net/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

namespace stowage {
namespace {

// A connection without calls takes some 12 KiB: half a GiB of them is enough for anyone.
constexpr rlim_t kMostConnections = 40'000;
constexpr rlim_t kFilesOfOurOwn = 64;

}  // namespace

void AllowAllFiles() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

int MostConnectionDescriptors() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const rlim_t reserve =
      std::min<rlim_t>(kMostHttpConnections + kFilesOfOurOwn, files.rlim_cur / 2);
  return static_cast<int>(std::min(files.rlim_cur - reserve, kMostConnections));
}

}  // namespace stowage
