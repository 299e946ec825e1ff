#include "solver/export/settings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace stowage {

std::vector<Piece> PiecesOf(const Setting& setting, int count) {
  const int recomputed = setting.method == Method::kNone    ? 0
                         : setting.method == Method::kBlock ? std::min(setting.layers, count)
                                                            : count;
  const int length = setting.method == Method::kUniform ? std::min(setting.layers, count) : 1;
  std::vector<Piece> pieces;
  for (int first = 1; first <= recomputed; first += length) {
    pieces.push_back({first, std::min(first + length - 1, recomputed), /*recomputed=*/true});
  }
  if (recomputed < count) pieces.push_back({recomputed + 1, count, /*recomputed=*/false});
  return pieces;
}

std::optional<Setting> SettingOf(const std::vector<Piece>& pieces) {
  const int count = pieces.back().last;
  const Piece& begin = pieces.front();
  Setting setting;
  if (begin.recomputed && pieces.back().recomputed) {
    setting = {Method::kUniform, begin.last};
  } else if (begin.recomputed) {
    setting = {Method::kBlock, static_cast<int>(pieces.size()) - 1};
  }
  if (PiecesOf(setting, count) != pieces) return std::nullopt;
  return setting;
}

std::vector<Setting> AllSettings(int count) {
  std::vector<Setting> settings = {{}};
  for (int n = 1; n <= count; ++n) settings.push_back({Method::kUniform, n});
  for (int n = 1; n < count; ++n) settings.push_back({Method::kBlock, n});
  return settings;
}

std::string SettingText(const Setting& setting) {
  if (setting.method == Method::kNone) return "nothing recomputed";
  return absl::StrCat(setting.method == Method::kUniform ? "uniform" : "block", ", ",
                      setting.layers, setting.layers == 1 ? " layer" : " layers");
}

}  // namespace stowage
