// The entry points of libcudart that the project uses. Their rules are the runtime's.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <string>
#include <utility>

#include "tests/support/cuda_double/cuda_double.h"
#include "tests/support/cuda_double/process.h"

namespace stowage::cuda_double {
namespace {

enum class OnFailure { kDoNothing, kDoItAllTheSame };

// One call of an entry point: `call` returns its result, unless an error of earlier work or one
// that is injected comes before it.
template <typename Call>
cudaError_t Enter(const char* entry_point, const Call& call,
                  OnFailure on_failure = OnFailure::kDoNothing) {
  return Process::Get().With([&](Runtime& runtime, Thread& thread) {
    cudaError_t error = cudaSuccess;
    if (Runtime::running() != nullptr) {
      runtime.AddReport(Finding::kMisuse, std::string(entry_point) +
                                              ": called by work of a stream\n" +
                                              CallSite::Here().ToString());
      return thread.last_error = cudaErrorNotPermitted;
    }
    error = runtime.CountCall(entry_point);
    if (runtime.Ignores(entry_point)) return cudaSuccess;
    if (runtime.sticky() != cudaSuccess) error = runtime.sticky();
    if (error == cudaSuccess || on_failure == OnFailure::kDoItAllTheSame) {
      const cudaError_t own = call(runtime, thread);
      if (error == cudaSuccess) error = own;
    }
    if (error != cudaSuccess) thread.last_error = error;
    return error;
  });
}

// cudaGetLastError() and cudaPeekAtLastError(). An error of the device stays.
cudaError_t LastError(const char* entry_point, bool clears) {
  return Process::Get().With([&](Runtime& runtime, Thread& thread) {
    cudaError_t error = runtime.CountCall(entry_point);
    if (error == cudaSuccess) error = thread.last_error;
    if (runtime.sticky() != cudaSuccess) error = runtime.sticky();
    if (clears) thread.last_error = cudaSuccess;
    return error;
  });
}

cudaError_t CheckOrdinal(const Runtime& runtime, int ordinal) {
  if (runtime.options().devices == 0) return cudaErrorNoDevice;
  const bool exists = ordinal >= 0 && ordinal < runtime.options().devices;
  return exists ? cudaSuccess : cudaErrorInvalidDevice;
}

}  // namespace

cudaError_t LaunchKernel(cudaStream_t stream, const std::vector<Range>& ranges,
                         std::function<void()> body) {
  return Enter("LaunchKernel", [&](Runtime& runtime, Thread& thread) {
    return runtime.LaunchKernel(stream, ranges, std::move(body), thread.device);
  });
}

// NOLINTBEGIN(bugprone-reserved-identifier): the names and parameters are CUDA's.
extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return Enter("cudaGetDeviceCount", [&](Runtime& runtime, Thread&) {
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = runtime.options().devices;
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaSetDevice(int device) {
  return Enter("cudaSetDevice", [&](Runtime& runtime, Thread& thread) {
    const cudaError_t error = CheckOrdinal(runtime, device);
    if (error == cudaSuccess) thread.device = device;
    return error;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return Enter("cudaDeviceGetAttribute", [&](Runtime& runtime, Thread&) {
    const cudaError_t error = CheckOrdinal(runtime, device);
    if (error != cudaSuccess) return error;
    if (value == nullptr || attribute != cudaDevAttrMemoryPoolsSupported) {
      return cudaErrorInvalidValue;
    }
    *value = runtime.options().has_pools ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return Enter("cudaDeviceGetPCIBusId", [&](Runtime& runtime, Thread&) {
    const cudaError_t error = CheckOrdinal(runtime, device);
    if (error != cudaSuccess) return error;
    if (id == nullptr || length < 13) return cudaErrorInvalidValue;
    (void)std::snprintf(id, static_cast<size_t>(length), "0000:%02X:00.0", 0xD0 + device);
    return cudaSuccess;
  });
}

cudaError_t cudaGetLastError() { return LastError("cudaGetLastError", /*clears=*/true); }

cudaError_t cudaPeekAtLastError() { return LastError("cudaPeekAtLastError", /*clears=*/false); }

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorNotPermitted:
      return "operation not permitted";
    case cudaErrorNotSupported:
      return "operation not supported";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorHostMemoryAlreadyRegistered:
      return "host memory is already registered";
    case cudaErrorHostMemoryNotRegistered:
      return "host memory is not registered";
    default:
      return "another error";
  }
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return Enter("cudaStreamCreateWithFlags", [&](Runtime& runtime, Thread& thread) {
    return runtime.StreamCreate(stream, flags, thread.device);
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return Enter(
      "cudaStreamDestroy",
      [&](Runtime& runtime, Thread& thread) {
        return runtime.StreamDestroy(stream, thread.device);
      },
      OnFailure::kDoItAllTheSame);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return Enter(
      "cudaStreamSynchronize",
      [&](Runtime& runtime, Thread& thread) {
        return runtime.StreamSynchronize(stream, thread.device);
      },
      OnFailure::kDoItAllTheSame);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return Enter("cudaStreamWaitEvent", [&](Runtime& runtime, Thread& thread) {
    if (flags != cudaEventWaitDefault) return cudaErrorInvalidValue;
    return runtime.StreamWaitEvent(stream, event, thread.device);
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return Enter("cudaEventCreate", [&](Runtime& runtime, Thread& thread) {
    return runtime.EventCreate(event, thread.device);
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return Enter(
      "cudaEventDestroy", [&](Runtime& runtime, Thread&) { return runtime.EventDestroy(event); },
      OnFailure::kDoItAllTheSame);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return Enter("cudaEventRecord", [&](Runtime& runtime, Thread& thread) {
    return runtime.EventRecord(event, stream, thread.device);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return Enter(
      "cudaEventSynchronize",
      [&](Runtime& runtime, Thread&) { return runtime.EventSynchronize(event); },
      OnFailure::kDoItAllTheSame);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return Enter("cudaEventElapsedTime", [&](Runtime& runtime, Thread&) {
    return runtime.EventElapsedTime(milliseconds, start, end);
  });
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  return Enter("cudaMalloc", [&](Runtime& runtime, Thread& thread) {
    return runtime.Malloc(data, bytes, thread.device);
  });
}

cudaError_t cudaFree(void* data) {
  return Enter(
      "cudaFree", [&](Runtime& runtime, Thread&) { return runtime.Free(data); },
      OnFailure::kDoItAllTheSame);
}

cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream) {
  return Enter("cudaMallocAsync", [&](Runtime& runtime, Thread& thread) {
    return runtime.MallocAsync(data, bytes, stream, thread.device);
  });
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  return Enter(
      "cudaFreeAsync",
      [&](Runtime& runtime, Thread& thread) {
        return runtime.FreeAsync(data, stream, thread.device);
      },
      OnFailure::kDoItAllTheSame);
}

cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned /*flags*/) {
  return Enter("cudaHostRegister",
               [&](Runtime& runtime, Thread&) { return runtime.HostRegister(data, bytes); });
}

cudaError_t cudaHostUnregister(void* data) {
  return Enter(
      "cudaHostUnregister", [&](Runtime& runtime, Thread&) { return runtime.HostUnregister(data); },
      OnFailure::kDoItAllTheSame);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return Enter("cudaMemcpyAsync", [&](Runtime& runtime, Thread& thread) {
    return runtime.MemcpyAsync({to, bytes, AccessKind::kWrite}, {from, bytes, AccessKind::kRead},
                               kind, stream, thread.device);
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return Enter("cudaLaunchHostFunc", [&](Runtime& runtime, Thread& thread) {
    return runtime.LaunchHostFunc(stream, function, data, thread.device);
  });
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)

}  // namespace stowage::cuda_double
