// One of the targets as a libFuzzer program. With STOWAGE_SEEDS=DIR it writes the target's seeds
// into that directory first.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/stubs/logging.h"
#include "tests/fuzz/targets.h"
#include "tests/support/files.h"

namespace {

const stowage::FuzzTarget& Target() {
  for (const stowage::FuzzTarget& target : stowage::FuzzTargets()) {
    if (std::string(target.name) == STOWAGE_FUZZ_TARGET) return target;
  }
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  google::protobuf::SetLogHandler(nullptr);
  const char* const folder = std::getenv("STOWAGE_SEEDS");
  if (folder == nullptr) return 0;
  int i = 0;
  for (const std::string& seed : Target().seeds()) {
    stowage::WriteFile(absl::StrCat(folder, "/seed-", i++), seed);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const stowage::FuzzTarget& target = Target();
  target.run({reinterpret_cast<const char*>(data), size});
  return 0;
}
