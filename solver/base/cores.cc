#include "solver/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "solver/base/file.h"

namespace stowage {
namespace {

// The numbers in a file, which are separated by spaces; fewer where there are others, such as
// "max".
std::vector<int64_t> NumbersIn(const std::string& path) {
  std::vector<int64_t> numbers;
  const absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) return numbers;
  for (const absl::string_view word : absl::StrSplit(*text, ' ')) {
    int64_t number = 0;
    if (absl::SimpleAtoi(word, &number)) numbers.push_back(number);
  }
  return numbers;
}

// Microseconds of processors that a group may take in a period of so many; nullopt: any number.
struct Quota {
  int64_t quota = 0;
  int64_t period = 0;
};
std::optional<Quota> QuotaOf(const std::string& folder, bool is_version_2) {
  std::vector<int64_t> numbers = NumbersIn(folder + "/cpu.max");
  if (!is_version_2) {
    numbers = NumbersIn(folder + "/cpu.cfs_quota_us");
    for (const int64_t period : NumbersIn(folder + "/cpu.cfs_period_us")) numbers.push_back(period);
  }
  // "max 100000", or -1, is no quota.
  if (numbers.size() != 2 || numbers[0] <= 0 || numbers[1] <= 0) return std::nullopt;
  return Quota{numbers[0], numbers[1]};
}

int AffinityCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails where the machine has more processors than the set has room for.
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

int CoresWithinQuota(int most, const std::string& root, absl::string_view groups) {
  int64_t cores = most;
  for (const absl::string_view line : absl::StrSplit(groups, '\n')) {
    // "0::/system.slice/stowage.service", "4:cpu,cpuacct:/docker/1f5e"
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(fields[1], ',');
    const bool is_version_2 = fields[0] == "0" && fields[1].empty();
    if (!is_version_2 &&
        std::find(controllers.begin(), controllers.end(), "cpu") == controllers.end()) {
      continue;
    }
    // A container may see its own group alone, as the root.
    for (absl::string_view path = absl::StripSuffix(fields[2], "/");;) {
      const std::string folder = absl::StrCat(root, is_version_2 ? "" : "/cpu", path);
      if (const std::optional<Quota> quota = QuotaOf(folder, is_version_2)) {
        cores = std::min(cores, (quota->quota - 1) / quota->period + 1);
      }
      if (path.empty()) break;
      const size_t last = path.rfind('/');
      path = path.substr(0, last == absl::string_view::npos ? 0 : last);
    }
  }
  return static_cast<int>(std::max<int64_t>(1, cores));
}

int UsableCores() {
  const absl::StatusOr<std::string> groups = ReadWholeFile("/proc/self/cgroup");
  return CoresWithinQuota(std::max(1, AffinityCores()), "/sys/fs/cgroup",
                          groups.ok() ? *groups : "");
}

}  // namespace stowage
