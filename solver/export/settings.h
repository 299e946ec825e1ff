// Settings that are a method and a number of layers: Megatron's two methods, of which DeepSpeed has
// one. There are few for a chain, so the best is found by trying all.
#ifndef STOWAGE_SOLVER_EXPORT_SETTINGS_H_
#define STOWAGE_SOLVER_EXPORT_SETTINGS_H_

#include <optional>
#include <string>
#include <vector>

#include "solver/algorithms/flat/flat_plan.h"

namespace stowage {

enum class Method {
  kNone,     // every layer is saved
  kUniform,  // segments of `layers` layers each, the last one shorter, run again
  kBlock,    // the first `layers` layers run again, each by itself; the others are saved
};

struct Setting {
  Method method = Method::kNone;
  int layers = 0;  // at least 1, but 0 of kNone

  bool operator==(const Setting&) const = default;
};

// Its plan of `count` layers. O(count).
std::vector<Piece> PiecesOf(const Setting& setting, int count);

// The setting with these pieces, of the layers 1..count; nullopt: there is none. Where each method
// has one it is uniform. O(pieces).
std::optional<Setting> SettingOf(const std::vector<Piece>& pieces);

// All settings that differ from each other: kNone, then kUniform, then kBlock.
std::vector<Setting> AllSettings(int count);

// "uniform, 4 layers".
std::string SettingText(const Setting& setting);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_EXPORT_SETTINGS_H_
