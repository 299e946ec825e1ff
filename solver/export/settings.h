// Settings that are a method and a number of layers, such as Megatron's two methods, of which
// DeepSpeed has one, and lists of layers. Of those with a number there are few for a chain, so the
// best is found by trying all.
#ifndef STOWAGE_SOLVER_EXPORT_SETTINGS_H_
#define STOWAGE_SOLVER_EXPORT_SETTINGS_H_

#include <optional>
#include <string>
#include <vector>

#include "solver/algorithms/flat/flat_plan.h"

namespace stowage {

enum class Method {
  kNone,          // every layer is saved
  kUniform,       // segments of `layers` layers each, the last one shorter, run again
  kBlock,         // the first `layers` layers run again, each by itself; the others are saved
  kFirstOfEvery,  // of every `layers` layers the first one runs again; the others are saved
  kLastOfEvery,   // of every `layers` layers the last one
  kList,          // the segments of `list` run again; the other layers are saved
  kWay,           // every layer is saved in part, by its way of the name `way`
};

struct Setting {
  Method method = Method::kNone;
  int layers = 0;  // at least 1, but 0 of kNone, kList and kWay
  // Of kList: all run again, and none is empty; in order, with or without gaps.
  std::vector<Piece> list = {};
  std::string way = {};

  bool operator==(const Setting&) const = default;
};

// Its plan of `count` layers. O(count). Requires: the list has no others, and it is not of kWay.
std::vector<Piece> PiecesOf(const Setting& setting, int count);

// The setting of kNone, kUniform or kBlock with these pieces, of the layers 1..count; nullopt:
// there is none. Where each method has one it is uniform. O(pieces).
std::optional<Setting> SettingOf(const std::vector<Piece>& pieces);

// All of these that differ from each other: kNone, then kUniform, then kBlock.
std::vector<Setting> AllSettings(int count);

// "uniform, 4 layers". Requires: one of these, or of kWay: "way 'core_attn'".
std::string SettingText(const Setting& setting);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_EXPORT_SETTINGS_H_
