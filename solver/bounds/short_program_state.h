// A node of the search through the schedules of a short chain: what is where, and when it is ready.
// Plain data. Source: short_program_search.h.
#ifndef STOWAGE_SOLVER_BOUNDS_SHORT_PROGRAM_STATE_H_
#define STOWAGE_SOLVER_BOUNDS_SHORT_PROGRAM_STATE_H_

#include <array>
#include <cassert>
#include <cstdint>

namespace stowage {

inline constexpr int kMaxShortProgramStages = 5;

// Form and place of every value, four bits a value; then the gradient held; then whether a replay
// was the last forward or backward: nothing but its backward may follow.
class ProgramState {
 public:
  enum Form : uint32_t { kNone = 0, kOutput = 1, kSaved = 2 };
  enum Place : uint32_t { kDevice = 0, kCopied = 1, kHost = 2 };  // kCopied: on both

  static constexpr int kMaxValues = kMaxShortProgramStages + 2;  // with the input and the loss

  ProgramState() = default;
  explicit ProgramState(int gradient) { SetGradient(gradient); }

  uint32_t bits() const { return bits_; }
  int gradient() const { return static_cast<int>((bits_ >> kGradientAt) & 7); }
  bool replayed() const { return (bits_ >> kReplayedAt) != 0; }
  Form form(int l) const {
    assert(l >= 0);
    return static_cast<Form>((bits_ >> (4 * l)) & 3);
  }
  Place place(int l) const { return static_cast<Place>((bits_ >> (4 * l + 2)) & 3); }
  bool live(int l) const { return form(l) != kNone; }
  bool on_device(int l) const { return live(l) && place(l) != kHost; }
  bool on_host(int l) const { return live(l) && place(l) != kDevice; }
  bool droppable(int l) const { return live(l) && place(l) == kDevice; }

  void Set(int l, Form form, Place place) {
    bits_ &= ~(uint32_t{15} << (4 * l));
    bits_ |= (static_cast<uint32_t>(form) | static_cast<uint32_t>(place) << 2) << (4 * l);
  }
  void Drop(int l) { Set(l, kNone, kDevice); }
  void SetGradient(int l) {
    bits_ &= (uint32_t{1} << kGradientAt) - 1;
    bits_ |= static_cast<uint32_t>(l) << kGradientAt;
  }
  void SetReplayed() { bits_ |= uint32_t{1} << kReplayedAt; }

 private:
  static constexpr int kGradientAt = 4 * kMaxValues;
  static constexpr int kReplayedAt = kGradientAt + 3;
  static_assert(kReplayedAt == 31);

  uint32_t bits_ = 0;
};

// When the queues are free and the values ready, in seconds.
struct ProgramClocks {
  double compute = 0;    // the last forward or backward ended
  double released = 0;   // the last RELEASE ended
  double to_host = 0;    // the last copy to the host ended; of any with half duplex
  double to_device = 0;  // the last copy to the device; 0 with half duplex
  std::array<double, ProgramState::kMaxValues> prefetched{};  // of a value on the device
  std::array<double, ProgramState::kMaxValues> offloaded{};   // of a value on both

  bool NoLaterThan(const ProgramClocks& other) const {
    bool later = compute > other.compute || released > other.released || to_host > other.to_host ||
                 to_device > other.to_device;
    for (int v = 0; v < ProgramState::kMaxValues; ++v) {
      later |= prefetched[v] > other.prefetched[v] || offloaded[v] > other.offloaded[v];
    }
    return !later;
  }
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BOUNDS_SHORT_PROGRAM_STATE_H_
