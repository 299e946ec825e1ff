#include "solver/export/settings.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "solver/base/quote.h"

namespace stowage {
namespace {

// Of segments of `length` layers each, one every `step` layers, from `first` to `last`.
std::vector<Piece> Segments(int first, int last, int length, int step) {
  std::vector<Piece> segments;
  for (int64_t begin = first; begin <= last; begin += step) {
    const int64_t end = std::min<int64_t>(begin + length - 1, last);
    segments.push_back({static_cast<int>(begin), static_cast<int>(end), /*recomputed=*/true});
  }
  return segments;
}

std::vector<Piece> SegmentsOf(const Setting& setting, int count) {
  const int n = setting.layers;
  switch (setting.method) {
    case Method::kNone:
      return {};
    case Method::kUniform:
      return Segments(1, count, n, n);
    case Method::kBlock:
      return Segments(1, std::min(n, count), 1, 1);
    case Method::kFirstOfEvery:
      return Segments(1, count, 1, n);
    case Method::kLastOfEvery:
      return Segments(n, count, 1, n);
    case Method::kList:
    case Method::kWay:
      break;
  }
  return setting.list;
}

}  // namespace

std::vector<Piece> PiecesOf(const Setting& setting, int count) {
  std::vector<Piece> pieces;
  int next = 1;
  for (const Piece& segment : SegmentsOf(setting, count)) {
    if (next < segment.first) pieces.push_back({next, segment.first - 1, /*recomputed=*/false});
    pieces.push_back(segment);
    next = segment.last + 1;
  }
  if (next <= count) pieces.push_back({next, count, /*recomputed=*/false});
  return pieces;
}

std::optional<Setting> SettingOf(const std::vector<Piece>& pieces) {
  const int count = pieces.back().last;
  const Piece& begin = pieces.front();
  Setting setting;
  if (begin.recomputed && pieces.back().recomputed) {
    setting.method = Method::kUniform;
    setting.layers = begin.last;
  } else if (begin.recomputed) {
    setting.method = Method::kBlock;
    setting.layers = static_cast<int>(pieces.size()) - 1;
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
  if (setting.method == Method::kWay) return absl::StrCat("way ", Quoted(setting.way));
  return absl::StrCat(setting.method == Method::kUniform ? "uniform" : "block", ", ",
                      setting.layers, setting.layers == 1 ? " layer" : " layers");
}

}  // namespace stowage
