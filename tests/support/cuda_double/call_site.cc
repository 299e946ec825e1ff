#include "tests/support/cuda_double/call_site.h"

#include <execinfo.h>

#include <cstdint>

#include "absl/debugging/symbolize.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace stowage::cuda_double {

CallSite CallSite::Here() {
  CallSite site;
  site.count_ = backtrace(site.frames_.data(), kMaxFrames);
  return site;
}

std::string CallSite::ToString() const {
  std::string text;
  bool is_outside = false;
  for (int i = 0; i < count_; ++i) {
    void* const frame = frames_[static_cast<size_t>(i)];
    std::array<char, 512> name = {};
    // A return address may be that of the next function: one byte before it is in the call.
    auto* const inside = static_cast<char*>(frame) - 1;
    const bool is_known = absl::Symbolize(inside, name.data(), static_cast<int>(name.size()));
    const absl::string_view function = is_known ? name.data() : "?";
    // Frames of the double itself say nothing to its user.
    is_outside = is_outside || !absl::StrContains(function, "cuda_double::");
    if (!is_outside) continue;
    absl::StrAppend(&text, "    ", function, " (0x", absl::Hex(reinterpret_cast<uintptr_t>(inside)),
                    ")\n");
  }
  return text;
}

}  // namespace stowage::cuda_double
