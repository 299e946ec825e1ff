#include "solver/algorithms/flat/remaining_time.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr size_t kMaxVertices = 100;
constexpr int64_t kNever = INT64_MAX / 2;  // no need is larger; two of them do not overflow
// What sums of doubles may be too high by: ticks number up to 2^51.
constexpr int64_t kNoise = int64_t{1} << 14;

size_t Index(int position) { return static_cast<size_t>(position); }

// By position, the least that the device may keep there, whatever it needs on the way.
std::vector<int64_t> LeastKept(const PlanArcs& arcs, int64_t memory_bytes) {
  std::vector<int64_t> kept(Index(arcs.positions()) + 2, kNever);
  kept[1] = arcs.start_bytes();
  std::vector<Arc> from;
  for (int p = 1; p <= arcs.positions(); ++p) {
    arcs.From(p, memory_bytes - kept[Index(p)], &from);
    for (const Arc& arc : from) {
      kept[Index(arc.to)] = std::min(kept[Index(arc.to)], kept[Index(p)] + arc.add);
    }
  }
  return kept;
}

}  // namespace

absl::StatusOr<int64_t> LeastBytesOf(const PlanArcs& arcs, const SolveContext& context) {
  std::vector<int64_t> least(Index(arcs.positions()) + 2, kNever);
  least.back() = arcs.end_need();
  std::vector<Arc> from;
  for (int p = arcs.positions(); p >= 1; --p) {
    RETURN_IF_ERROR(context.CheckStop());
    arcs.From(p, INT64_MAX, &from);
    for (const Arc& arc : from) {
      const int64_t need = std::max(arc.need, arc.add + least[Index(arc.to)]);
      least[Index(p)] = std::min(least[Index(p)], need);
    }
  }
  return arcs.start_bytes() + least[1];
}

double RemainingTime::Slope(const Vertex& left, const Vertex& right) {
  return (left.ticks - right.ticks) / static_cast<double>(right.bytes - left.bytes);
}

// On the edge behind vertex `left`, or beyond the last one.
double RemainingTime::ValueAt(const Hull& hull, size_t left, int64_t bytes) {
  const Vertex& vertex = hull[left];
  if (left + 1 == hull.size()) return vertex.ticks;
  return vertex.ticks - Slope(vertex, hull[left + 1]) * static_cast<double>(bytes - vertex.bytes);
}

// ticks + f(to, r - add) for r >= need, up to the first vertex beyond `room`.
void RemainingTime::Shift(const Hull& behind, const Arc& arc, int64_t room, Hull* shifted) {
  shifted->clear();
  const int64_t least = arc.need - arc.add;  // what has to be left behind the arc at least
  size_t next = 0;
  if (behind.front().bytes < least) {
    const auto beyond =
        std::upper_bound(behind.begin(), behind.end(), least,
                         [](int64_t bytes, const Vertex& vertex) { return bytes < vertex.bytes; });
    next = static_cast<size_t>(beyond - behind.begin());
    shifted->push_back(
        {arc.need, ValueAt(behind, next - 1, least) + static_cast<double>(arc.ticks)});
  }
  for (; next < behind.size(); ++next) {
    shifted->push_back(
        {behind[next].bytes + arc.add, behind[next].ticks + static_cast<double>(arc.ticks)});
    if (shifted->back().bytes >= room) return;
  }
}

// The lower convex hull of both.
void RemainingTime::Merge(const Hull& added, Hull* hull, Hull* scratch) {
  scratch->clear();
  auto a = hull->begin();
  auto b = added.begin();
  while (a != hull->end() || b != added.end()) {
    const bool first = b == added.end() || (a != hull->end() && std::pair(a->bytes, a->ticks) <=
                                                                    std::pair(b->bytes, b->ticks));
    const Vertex next = first ? *a++ : *b++;
    if (!scratch->empty() &&
        (next.ticks >= scratch->back().ticks || next.bytes == scratch->back().bytes)) {
      continue;
    }
    while (scratch->size() >= 2 && Slope((*scratch)[scratch->size() - 2], scratch->back()) <=
                                       Slope(scratch->back(), next)) {
      scratch->pop_back();
    }
    scratch->push_back(next);
  }
  hull->swap(*scratch);
}

// Leaves out edges whose slope is close to that of the one before, and extends their neighbours
// until they meet, which is below all that was left out.
void RemainingTime::Thin(Hull* hull) {
  if (hull->size() <= kMaxVertices) return;
  const size_t edges = hull->size() - 1;
  const auto slope = [&](size_t edge) { return Slope((*hull)[edge], (*hull)[edge + 1]); };
  const double ratio = std::pow(slope(0) / slope(edges - 1), 1.0 / kMaxVertices);
  Hull thin = {hull->front()};
  size_t kept = 0;  // the last edge that stays
  for (size_t edge = 1; edge < edges; ++edge) {
    if (edge + 1 < edges && slope(kept) < ratio * slope(edge)) continue;
    Vertex corner = (*hull)[edge];
    if (edge > kept + 1) {
      const Vertex& from = (*hull)[kept];
      const double rise = slope(kept) - slope(edge);
      const double reach = (from.ticks - corner.ticks -
                            slope(edge) * static_cast<double>(corner.bytes - from.bytes)) /
                           rise;
      const int64_t first = (*hull)[kept + 1].bytes;
      const int64_t bytes =
          std::clamp(from.bytes + static_cast<int64_t>(reach), first, corner.bytes);
      // Whole bytes are beside the crossing, where one of the two lines is below the other.
      const double along = from.ticks - slope(kept) * static_cast<double>(bytes - from.bytes);
      const double back = corner.ticks + slope(edge) * static_cast<double>(corner.bytes - bytes);
      corner = {bytes, std::min(along, back)};
    }
    if (corner.bytes > thin.back().bytes) thin.push_back(corner);
    kept = edge;
  }
  thin.push_back(hull->back());
  hull->swap(thin);
}

absl::StatusOr<RemainingTime> RemainingTime::Of(const PlanArcs& arcs, int64_t memory_bytes,
                                                const SolveContext& context) {
  RemainingTime remaining;
  remaining.memory_bytes_ = memory_bytes;
  const size_t end = Index(arcs.positions()) + 1;
  remaining.least_need_.assign(end + 1, kNever);
  remaining.hulls_.resize(end + 1);
  remaining.least_need_[end] = arcs.end_need();
  remaining.hulls_[end] = {{arcs.end_need(), 0}};
  const std::vector<int64_t> kept = LeastKept(arcs, memory_bytes);
  std::vector<Arc> from;
  Hull shifted;
  Hull scratch;
  for (int p = arcs.positions(); p >= 1; --p) {
    RETURN_IF_ERROR(context.CheckStop());
    const int64_t room = memory_bytes - kept[Index(p)];
    Hull& hull = remaining.hulls_[Index(p)];
    arcs.From(p, room, &from);
    for (const Arc& arc : from) {
      if (remaining.hulls_[Index(arc.to)].empty()) continue;
      const int64_t behind = remaining.least_need_[Index(arc.to)];
      const int64_t need = std::max(arc.need, arc.add + behind);
      if (need > room) continue;
      remaining.least_need_[Index(p)] = std::min(remaining.least_need_[Index(p)], need);
      Shift(remaining.hulls_[Index(arc.to)], arc, room, &shifted);
      Merge(shifted, &hull, &scratch);
    }
    Thin(&hull);
  }
  return remaining;
}

int64_t RemainingTime::WorkingBytes(int positions) {
  constexpr auto kVertexBytes = static_cast<int64_t>(sizeof(Vertex));
  constexpr int64_t kCapacity = 4 * static_cast<int64_t>(kMaxVertices);  // of a growing vector
  return (positions + 2) * (kCapacity * kVertexBytes + 64);
}

int64_t RemainingTime::LeastTicks(int position, int64_t kept, size_t* at) const {
  const Hull& hull = hulls_[Index(position)];
  const int64_t bytes = memory_bytes_ - kept;
  *at = std::min(*at, hull.size() - 1);
  while (*at > 0 && hull[*at].bytes > bytes) --*at;
  if (hull[*at].bytes > bytes) return static_cast<int64_t>(hull.front().ticks) - kNoise;
  return static_cast<int64_t>(ValueAt(hull, *at, bytes)) - kNoise;
}

}  // namespace stowage
