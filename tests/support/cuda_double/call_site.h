// Where a call of the runtime came from.
#ifndef STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_CALL_SITE_H_
#define STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_CALL_SITE_H_

#include <array>
#include <string>

namespace stowage::cuda_double {

// A backtrace. Taking one is cheap; its functions are looked up by ToString() alone.
class CallSite {
 public:
  static CallSite Here();

  // One line a frame, indented; the entry point of the runtime comes first.
  std::string ToString() const;

 private:
  static constexpr int kMaxFrames = 16;

  std::array<void*, kMaxFrames> frames_ = {};
  int count_ = 0;
};

}  // namespace stowage::cuda_double

#endif  // STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_CALL_SITE_H_
