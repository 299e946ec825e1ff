#include "solver/kernels/min_plus.h"

#include <algorithm>

#include "solver/kernels/min_plus_scalar.h"

// The register blocks need vectors whose size is a compile-time constant. SVE and RISC-V have none.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "solver/kernels/min_plus.cc"
#include "hwy/foreach_target.h"
// Once for every target:
#include "solver/kernels/min_plus_tile-inl.h"

#if HWY_ONCE
namespace stowage {
namespace {

HWY_EXPORT(FillTileHere);

bool use_scalar = false;  // written only by SetMinPlusTarget()

}  // namespace

void FillTile(const TableView& table, int chunk, int row, int column) {
  if (use_scalar) return FillTileScalar(table, chunk, row, column);
  HWY_DYNAMIC_DISPATCH(FillTileHere)(table, chunk, row, column);
}

std::vector<std::string> MinPlusTargets() {
  std::vector<std::string> names = {"scalar"};
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    names.emplace_back(hwy::TargetName(target));
  }
  return names;
}

bool SetMinPlusTarget(const std::string& name) {
  use_scalar = name == "scalar";
  hwy::SetSupportedTargetsForTest(0);
  if (!use_scalar && name != "best") {
    const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
    const auto found = std::find_if(targets.begin(), targets.end(), [&name](int64_t target) {
      return name == hwy::TargetName(target);
    });
    if (found == targets.end()) return false;
    hwy::SetSupportedTargetsForTest(*found);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return true;
}

}  // namespace stowage
#endif
