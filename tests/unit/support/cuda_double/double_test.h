// A fixture for tests of the double: new devices, and what is asked of them most.
#ifndef STOWAGE_TESTS_UNIT_SUPPORT_CUDA_DOUBLE_DOUBLE_TEST_H_
#define STOWAGE_TESTS_UNIT_SUPPORT_CUDA_DOUBLE_DOUBLE_TEST_H_

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/support/cuda_double/cuda_double.h"

namespace stowage {

class CudaDoubleTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 1000;
  static constexpr uint64_t kSeeds = 64;

  CudaDoubleTest() { cuda_double::Reset(); }
  ~CudaDoubleTest() override {
    for (const auto& report : cuda_double::TakeReports()) {
      ADD_FAILURE() << "not expected: " << report.text;
    }
    cuda_double::Reset();
  }

  static cudaStream_t NewStream(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
    return stream;
  }
  static cudaEvent_t NewEvent() {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreate(&event), cudaSuccess);
    return event;
  }
  static std::byte* Malloc(size_t bytes = kBytes) {
    void* data = nullptr;
    EXPECT_EQ(cudaMalloc(&data, bytes), cudaSuccess);
    return static_cast<std::byte*>(data);
  }
  static std::byte* MallocAsync(cudaStream_t stream, size_t bytes = kBytes) {
    void* data = nullptr;
    EXPECT_EQ(cudaMallocAsync(&data, bytes, stream), cudaSuccess);
    return static_cast<std::byte*>(data);
  }

  static void Wait(cudaStream_t stream, cudaStream_t for_stream) {
    const cudaEvent_t event = NewEvent();
    EXPECT_EQ(cudaEventRecord(event, for_stream), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(stream, event, 0), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  }
  static void Sync(cudaStream_t stream) { EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess); }

  static void Kernel(
      cudaStream_t stream, const std::vector<cuda_double::Range>& ranges,
      std::function<void()> body = [] {}) {
    EXPECT_EQ(cuda_double::LaunchKernel(stream, ranges, std::move(body)), cudaSuccess);
  }
  static void Fill(cudaStream_t stream, std::byte* data, char value, size_t bytes = kBytes) {
    Kernel(stream, {Written(data, bytes)},
           [=] { std::fill_n(cuda_double::View(data), bytes, static_cast<std::byte>(value)); });
  }
  static cuda_double::Range Read(const void* data, size_t bytes = kBytes) {
    return {data, bytes, cuda_double::AccessKind::kRead};
  }
  static cuda_double::Range Written(const void* data, size_t bytes = kBytes) {
    return {data, bytes, cuda_double::AccessKind::kWrite};
  }

  // What was found since the last call.
  static std::vector<cuda_double::Finding> Findings() {
    std::vector<cuda_double::Finding> findings;
    for (const auto& report : cuda_double::TakeReports()) findings.push_back(report.finding);
    return findings;
  }

  // Calls `make` for each seed; what it returns for any.
  template <typename Make>
  static auto OverSeeds(const Make& make, cuda_double::Options options = {}) {
    std::set<decltype(make())> results;
    for (options.seed = 1; options.seed <= kSeeds; ++options.seed) {
      cuda_double::Reset(options);
      results.insert(make());
    }
    return results;
  }
};

// A buffer of registered host memory.
class Registered {
 public:
  explicit Registered(char value = 0) {
    data_.fill(static_cast<std::byte>(value));
    EXPECT_EQ(cudaHostRegister(data_.data(), data_.size(), 0), cudaSuccess);
  }
  ~Registered() { (void)cudaHostUnregister(data_.data()); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  std::byte* data() { return data_.data(); }
  char at(size_t i) const { return static_cast<char>(data_[i]); }

 private:
  std::array<std::byte, 1000> data_ = {};
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_UNIT_SUPPORT_CUDA_DOUBLE_DOUBLE_TEST_H_
