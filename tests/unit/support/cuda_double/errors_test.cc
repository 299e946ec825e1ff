// Errors of the double: injected, of the device, and of the calls themselves.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <thread>

#include "tests/unit/support/cuda_double/double_test.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CudaErrors : public CudaDoubleTest {
 protected:
  // Calls each entry point as it succeeds, but those of errors.
  struct Call {
    std::string name;
    std::function<cudaError_t()> call;
  };
  std::vector<Call> EveryCall() {
    const cudaStream_t stream = NewStream();
    const cudaEvent_t event = NewEvent();
    EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
    EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
    return {
        {"cudaGetDeviceCount", [this] { return cudaGetDeviceCount(&number_); }},
        {"cudaSetDevice", [] { return cudaSetDevice(0); }},
        {"cudaDeviceGetAttribute",
         [this] { return cudaDeviceGetAttribute(&number_, cudaDevAttrMemoryPoolsSupported, 0); }},
        {"cudaDeviceGetPCIBusId",
         [this] { return cudaDeviceGetPCIBusId(text_.data(), static_cast<int>(text_.size()), 0); }},
        {"cudaStreamCreateWithFlags",
         [this] { return cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); }},
        {"cudaStreamDestroy", [] { return cudaStreamDestroy(NewStream()); }},
        {"cudaStreamSynchronize", [=] { return cudaStreamSynchronize(stream); }},
        {"cudaStreamWaitEvent", [=] { return cudaStreamWaitEvent(stream, event, 0); }},
        {"cudaEventCreate", [this] { return cudaEventCreate(&event_); }},
        {"cudaEventDestroy", [] { return cudaEventDestroy(NewEvent()); }},
        {"cudaEventRecord", [=] { return cudaEventRecord(NewEvent(), stream); }},
        {"cudaEventSynchronize", [=] { return cudaEventSynchronize(event); }},
        {"cudaEventElapsedTime",
         [=, this] { return cudaEventElapsedTime(&seconds_, event, event); }},
        {"cudaMalloc", [this] { return cudaMalloc(&data_, 10); }},
        {"cudaFree", [] { return cudaFree(Malloc()); }},
        {"cudaMallocAsync", [=, this] { return cudaMallocAsync(&data_, 10, stream); }},
        {"cudaFreeAsync", [=] { return cudaFreeAsync(MallocAsync(stream), stream); }},
        {"cudaHostRegister", [this] { return cudaHostRegister(&memory_[next_++], 1, 0); }},
        {"cudaHostUnregister",
         [this] {
           (void)cudaHostRegister(&memory_[next_], 1, 0);
           return cudaHostUnregister(&memory_[next_++]);
         }},
        {"cudaMemcpyAsync",
         [=, this] {
           return cudaMemcpyAsync(&memory_[100], &memory_[200], 1, cudaMemcpyHostToHost, stream);
         }},
        {"cudaLaunchHostFunc",
         [=] {
           return cudaLaunchHostFunc(
               stream, [](void*) {}, nullptr);
         }},
        {"LaunchKernel", [=] { return cuda_double::LaunchKernel(stream, {}, [] {}); }}};
  }

  int number_ = 0;
  float seconds_ = 0;
  void* data_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t event_ = nullptr;
  size_t next_ = 0;
  std::array<char, 32> text_ = {};
  std::array<std::byte, 300> memory_ = {};
};

TEST_F(CudaErrors, ComeFromTheCallThatIsMadeToFail) {
  for (const auto& [name, call] : EveryCall()) {
    SCOPED_TRACE(name);
    const int calls = cuda_double::Calls(name);
    cuda_double::FailCall(name, 2, cudaErrorUnknown);
    EXPECT_EQ(call(), cudaSuccess);
    EXPECT_EQ(call(), cudaErrorUnknown);
    EXPECT_EQ(cudaGetLastError(), cudaErrorUnknown);
    EXPECT_EQ(call(), cudaSuccess);
    EXPECT_EQ(cuda_double::Calls(name), calls + 3);
  }
}

TEST_F(CudaErrors, OfErrorCallsAreInjectedToo) {
  cuda_double::FailCall("cudaPeekAtLastError", 1, cudaErrorLaunchFailure);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  cuda_double::FailCall("cudaGetLastError", 1, cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
}

TEST_F(CudaErrors, KeepNoCallFromFreeingAndBlocking) {
  const cudaStream_t stream = NewStream();
  bool ran = false;
  Kernel(stream, {}, [&] { ran = true; });
  cuda_double::FailCall("cudaStreamSynchronize", 1, cudaErrorUnknown);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorUnknown);
  EXPECT_TRUE(ran);
  cuda_double::FailCall("cudaStreamDestroy", 1, cudaErrorUnknown);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorUnknown);
  EXPECT_THAT(cuda_double::Leaks(), IsEmpty());
}

TEST_F(CudaErrors, DoNotComeFromCallsThatAreIgnored) {
  std::byte* const data = Malloc();
  cuda_double::IgnoreCalls("cudaFree");
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cuda_double::Calls("cudaFree"), 2);
  EXPECT_EQ(cuda_double::Leaks().size(), 1U);
}

TEST_F(CudaErrors, AreKeptForEachThreadUntilTheyAreTaken) {
  EXPECT_EQ(cudaSetDevice(5), cudaErrorInvalidDevice);
  std::thread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);  // which clears nothing
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CudaErrors, OfTheDeviceComeLateAndStay) {
  const auto launches = OverSeeds([this] {
    const auto calls = EveryCall();
    const cudaStream_t stream = NewStream();
    bool ran = false;
    cuda_double::FailWork(2, cudaErrorLaunchFailure);
    Kernel(stream, {});
    const cudaError_t launch = cuda_double::LaunchKernel(stream, {}, [&] { ran = true; });
    (void)cuda_double::LaunchKernel(stream, {}, [&] { ran = true; });
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
    EXPECT_FALSE(ran);
    for (const auto& [name, call] : calls) {
      if (name == "cudaHostUnregister" || name.find("Destroy") != std::string::npos) continue;
      if (name.find("Free") != std::string::npos || name == "cudaEventRecord") continue;
      EXPECT_EQ(call(), cudaErrorLaunchFailure) << name;
    }
    return launch;
  });
  EXPECT_THAT(launches, ElementsAre(cudaSuccess));
}

TEST_F(CudaErrors, OfTheDeviceComeFromCopiesToo) {
  const cudaStream_t stream = NewStream();
  Registered host;
  cuda_double::FailWork(1, cudaErrorIllegalAddress);
  ASSERT_EQ(cudaMemcpyAsync(Malloc(), host.data(), kBytes, cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
}

TEST_F(CudaErrors, SayThatThereIsNoSuchDevice) {
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceGetAttribute(&number_, cudaDevAttrMemoryPoolsSupported, 1),
            cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceGetPCIBusId(text_.data(), static_cast<int>(text_.size()), 1),
            cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceGetPCIBusId(text_.data(), 12, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceGetPCIBusId(text_.data(), 13, 0), cudaSuccess);
  EXPECT_STREQ(text_.data(), "0000:D0:00.0");
  cuda_double::Reset({.devices = 0});
  EXPECT_EQ(cudaGetDeviceCount(&number_), cudaErrorNoDevice);
  EXPECT_EQ(cudaSetDevice(0), cudaErrorNoDevice);
  cuda_double::Reset({.devices = 2});
  EXPECT_EQ(cudaGetDeviceCount(&number_), cudaSuccess);
  EXPECT_EQ(number_, 2);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
}

TEST_F(CudaErrors, HaveTexts) {
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidDevice), "invalid device ordinal");
}

TEST_F(CudaErrors, ThatAreNotTakenEndTheProgram) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        (void)cudaEventDestroy(nullptr);
        cuda_double::Reset();
      },
      testing::ExitedWithCode(1), "not taken: cudaEventDestroy: no event");
}

}  // namespace
}  // namespace stowage
