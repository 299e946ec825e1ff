// A CudaDevice on the double of CUDA's runtime. At its end it fails the test for all that the
// double has found, and for all that was made on the device and not freed.
#ifndef STOWAGE_TESTS_SUPPORT_CUDA_DEVICE_ON_DOUBLE_H_
#define STOWAGE_TESTS_SUPPORT_CUDA_DEVICE_ON_DOUBLE_H_

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "client/agent/cuda/cuda_device.h"
#include "tests/support/cuda_double/cuda_double.h"
#include "tests/support/forwarding_device.h"

namespace stowage {

// The number of reports and leaks, each of which fails the test.
inline size_t ExpectNothingFound() {
  auto found = cuda_double::TakeReports();
  for (auto& leak : cuda_double::Leaks()) found.push_back(std::move(leak));
  for (const auto& report : found) ADD_FAILURE() << report.text;
  return found.size();
}

class CudaDeviceOnDouble final : public ForwardingDevice {
 public:
  explicit CudaDeviceOnDouble(const cuda_double::Options& options)
      : CudaDeviceOnDouble(MakeDevice(options)) {}
  ~CudaDeviceOnDouble() override {
    cuda_.reset();
    (void)ExpectNothingFound();
  }

 private:
  explicit CudaDeviceOnDouble(std::unique_ptr<CudaDevice> cuda)
      : ForwardingDevice(cuda.get()), cuda_(std::move(cuda)) {}

  static std::unique_ptr<CudaDevice> MakeDevice(const cuda_double::Options& options) {
    cuda_double::Reset(options);
    return *CudaDevice::Create();
  }

  std::unique_ptr<CudaDevice> cuda_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_CUDA_DEVICE_ON_DOUBLE_H_
