// Three streams of a GPU behind the Device interface. Invariants:
// - CUDA's error state is per thread and sticky: every failed call is followed by
//   cudaGetLastError(), so that a later check does not report it again.
// - CUDA's current device is per thread, too, and others may change it: what depends on it makes
//   the device current first.
// - An event's time is the float of milliseconds since an origin event. Synchronize() moves the
//   origin forward when it is old, and every event keeps the origin that it was recorded under.
#include "client/agent/cuda/cuda_device.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "solver/base/mutex.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

// Seconds. cudaEventElapsedTime() returns a float of milliseconds, which beyond some seconds is
// less exact than a microsecond.
constexpr double kMaxOriginAge = 4;

absl::Status FromCuda(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  (void)cudaGetLastError();  // clears the error state
  const std::string message = absl::StrCat(what, ": ", cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

// For calls whose failure has no consequence.
bool Succeeds(cudaError_t error) {
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error == cudaSuccess;
}

absl::Status MakeCurrent(int ordinal) {
  return FromCuda(cudaSetDevice(ordinal), "making the device current");
}

// The GPU's NUMA node from sysfs; -1: unknown.
int NumaNodeOf(int ordinal) {
  std::array<char, 32> address = {};
  if (!Succeeds(cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), ordinal))) {
    return -1;
  }
  std::string path(address.data());
  std::transform(path.begin(), path.end(), path.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  std::ifstream file("/sys/bus/pci/devices/" + path + "/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

size_t WholePages(int64_t bytes) {
  constexpr size_t kPage = size_t{2} << 20;  // a huge page
  return (static_cast<size_t>(bytes) + kPage - 1) / kPage * kPage;
}

// Prefers pages on `node`. Best effort: pinned memory elsewhere works, too.
void PreferNode(void* data, size_t bytes, int node) {
  constexpr int kBits = 8 * sizeof(unsigned long);
  constexpr int kMaxNodes = 1024;
  if (node < 0 || node >= kMaxNodes) return;
  std::array<unsigned long, kMaxNodes / kBits> mask = {};
  mask[static_cast<size_t>(node / kBits)] = 1UL << (node % kBits);
  (void)syscall(SYS_mbind, data, bytes, MPOL_PREFERRED, mask.data(), kMaxNodes, 0);
}

}  // namespace

// Reuses events, since creating one is slow. Thread-safe: events may be released on any thread.
class CudaDevice::EventPool {
 public:
  explicit EventPool(int ordinal) : ordinal_(ordinal) {}
  ~EventPool() {
    for (const cudaEvent_t event : free_) Succeeds(cudaEventDestroy(event));
  }
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  absl::StatusOr<cudaEvent_t> Take() {
    {
      MutexLock lock(mutex_);
      if (!free_.empty()) {
        const cudaEvent_t event = free_.back();
        free_.pop_back();
        return event;
      }
    }
    cudaEvent_t event = nullptr;
    RETURN_IF_ERROR(MakeCurrent(ordinal_));
    RETURN_IF_ERROR(FromCuda(cudaEventCreate(&event), "creating an event"));
    return event;
  }

  void Return(cudaEvent_t event) {
    MutexLock lock(mutex_);
    free_.push_back(event);
  }

 private:
  const int ordinal_;
  Mutex mutex_;
  std::vector<cudaEvent_t> free_ ABSL_GUARDED_BY(mutex_);
};

// An event that has happened, and its time since the device was created.
class CudaDevice::Origin {
 public:
  Origin(std::shared_ptr<EventPool> pool, cudaEvent_t event, double seconds)
      : pool_(std::move(pool)), event_(event), seconds_(seconds) {}
  ~Origin() { pool_->Return(event_); }
  Origin(const Origin&) = delete;
  Origin& operator=(const Origin&) = delete;

  // The time of an event that has happened, in seconds since the device was created.
  cudaError_t SecondsOf(cudaEvent_t event, double* seconds) const {
    float milliseconds = 0;
    const cudaError_t error = cudaEventElapsedTime(&milliseconds, event_, event);
    *seconds = seconds_ + 1e-3 * static_cast<double>(milliseconds);
    return error;
  }
  double seconds() const { return seconds_; }

 private:
  const std::shared_ptr<EventPool> pool_;
  const cudaEvent_t event_;
  const double seconds_;
};

class CudaDevice::CudaEvent final : public Event {
 public:
  CudaEvent(std::shared_ptr<EventPool> pool, cudaEvent_t event,
            std::shared_ptr<const Origin> origin)
      : pool_(std::move(pool)), event_(event), origin_(std::move(origin)) {}
  ~CudaEvent() override { pool_->Return(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  double Seconds() const override {
    double seconds = 0;
    Succeeds(origin_->SecondsOf(event_, &seconds));
    return seconds;
  }

  cudaEvent_t event() const { return event_; }

 private:
  const std::shared_ptr<EventPool> pool_;
  const cudaEvent_t event_;
  const std::shared_ptr<const Origin> origin_;
};

int CudaDeviceCount() {
  int count = 0;
  return Succeeds(cudaGetDeviceCount(&count)) ? count : 0;
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(const CudaOptions& options) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(options));
  RETURN_IF_ERROR(device->Open());
  return device;
}

absl::Status CudaDevice::Open() {
  const cudaError_t found = cudaSetDevice(options_.ordinal);
  if (found != cudaSuccess) {
    (void)cudaGetLastError();
    return absl::NotFoundError(absl::StrCat("there is no CUDA device ", options_.ordinal, ": ",
                                            cudaGetErrorString(found)));
  }
  // Allocation from a pool does not synchronize the device, unlike cudaMalloc().
  int pools = 0;
  if (Succeeds(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, options_.ordinal))) {
    has_pool_ = pools != 0;
  }
  numa_node_ = NumaNodeOf(options_.ordinal);
  for (size_t queue = 0; queue < kQueues; ++queue) {
    const bool borrowed =
        static_cast<Queue>(queue) == Queue::kCompute && options_.compute_stream != nullptr;
    if (borrowed) {
      streams_[queue] = options_.compute_stream;
      continue;
    }
    RETURN_IF_ERROR(FromCuda(cudaStreamCreateWithFlags(&streams_[queue], cudaStreamNonBlocking),
                             "creating a stream"));
  }
  events_ = std::make_shared<EventPool>(options_.ordinal);
  return MoveOrigin();
}

// Borrowed streams stay; events return to the pool as their owners drop them.
CudaDevice::~CudaDevice() {
  (void)Synchronize();
  for (const cudaStream_t stream : streams_) {
    if (stream != nullptr && stream != options_.compute_stream) Succeeds(cudaStreamDestroy(stream));
  }
}

absl::Status CudaDevice::MoveOrigin() {
  // A new origin is timed against the old one, so device seconds go on.
  ASSIGN_OR_RETURN(const cudaEvent_t event, events_->Take());
  const auto fail = [&](const absl::Status& status) {
    events_->Return(event);
    return status;
  };
  absl::Status status = FromCuda(cudaEventRecord(event, stream(Queue::kCompute)), "timing");
  if (status.ok()) status = FromCuda(cudaEventSynchronize(event), "timing");
  if (!status.ok()) return fail(status);
  double seconds = 0;
  if (origin_ != nullptr) {
    status = FromCuda(origin_->SecondsOf(event, &seconds), "timing");
    if (!status.ok()) return fail(status);
    if (seconds - origin_->seconds() < kMaxOriginAge) return fail(absl::OkStatus());
  }
  origin_ = std::make_shared<Origin>(events_, event, seconds);
  return absl::OkStatus();
}

absl::StatusOr<DeviceSpan> CudaDevice::Allocate(int64_t bytes) {
  void* data = nullptr;
  const auto size = static_cast<size_t>(bytes);
  const std::string what = absl::StrCat("allocating ", FormatBytes(bytes), " on the device");
  RETURN_IF_ERROR(MakeCurrent(options_.ordinal));
  if (!has_pool_) {
    RETURN_IF_ERROR(FromCuda(cudaMalloc(&data, size), what));
  } else {
    const cudaStream_t compute = stream(Queue::kCompute);
    RETURN_IF_ERROR(FromCuda(cudaMallocAsync(&data, size, compute), what));
    // Stream-ordered memory is usable on other streams once the allocation has run.
    const absl::Status status = FromCuda(cudaStreamSynchronize(compute), what);
    if (!status.ok()) {
      Succeeds(cudaFreeAsync(data, compute));
      return status;
    }
  }
  return DeviceSpan{static_cast<std::byte*>(data), bytes};
}

void CudaDevice::Free(DeviceSpan span) {
  if (span.data == nullptr) return;
  if (has_pool_) {
    Succeeds(cudaFreeAsync(span.data, stream(Queue::kCompute)));
  } else {
    Succeeds(cudaFree(span.data));
  }
}

absl::StatusOr<PinnedSpan> CudaDevice::AllocatePinned(int64_t bytes) {
  const std::string what = absl::StrCat("pinning ", FormatBytes(bytes), " of host memory");
  RETURN_IF_ERROR(MakeCurrent(options_.ordinal));
  // Not cudaHostAlloc(): it has no choice of NUMA node or page size.
  const size_t size = WholePages(bytes);
  void* const data =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": ", std::strerror(errno)));
  }
  // Both before the first write, which places the pages.
  (void)madvise(data, size, MADV_HUGEPAGE);
  PreferNode(data, size, numa_node_);
  const absl::Status status =
      FromCuda(cudaHostRegister(data, size, cudaHostRegisterPortable), what);
  if (!status.ok()) {
    (void)munmap(data, size);
    return absl::ResourceExhaustedError(status.message());
  }
  return PinnedSpan{static_cast<std::byte*>(data), bytes};
}

void CudaDevice::FreePinned(PinnedSpan span) {
  if (span.data == nullptr) return;
  Succeeds(cudaHostUnregister(span.data));
  (void)munmap(span.data, WholePages(span.bytes));
}

absl::Status CudaDevice::Copy(Queue queue, DeviceSpan from, PinnedSpan to) {
  if (from.bytes == 0) return absl::OkStatus();
  return FromCuda(cudaMemcpyAsync(to.data, from.data, static_cast<size_t>(from.bytes),
                                  cudaMemcpyDeviceToHost, stream(queue)),
                  "copying to the host");
}

absl::Status CudaDevice::Copy(Queue queue, PinnedSpan from, DeviceSpan to) {
  if (from.bytes == 0) return absl::OkStatus();
  return FromCuda(cudaMemcpyAsync(to.data, from.data, static_cast<size_t>(from.bytes),
                                  cudaMemcpyHostToDevice, stream(queue)),
                  "copying to the device");
}

absl::Status CudaDevice::Launch(Queue queue, DeviceWork work) {
  RETURN_IF_ERROR(MakeCurrent(options_.ordinal));
  const absl::Status status = work(stream(queue));
  const absl::Status launched = FromCuda(cudaPeekAtLastError(), "launching");
  return status.ok() ? launched : status;
}

absl::Status CudaDevice::LaunchCopy(Queue queue, Direction /*direction*/, int64_t /*bytes*/,
                                    DeviceWork work) {
  return Launch(queue, std::move(work));
}

absl::StatusOr<std::shared_ptr<const Event>> CudaDevice::Record(Queue queue) {
  ASSIGN_OR_RETURN(const cudaEvent_t event, events_->Take());
  auto result = std::make_shared<CudaEvent>(events_, event, origin_);
  RETURN_IF_ERROR(FromCuda(cudaEventRecord(event, stream(queue)), "recording an event"));
  return result;
}

absl::Status CudaDevice::Wait(Queue queue, const std::shared_ptr<const Event>& event) {
  const auto& cuda_event = static_cast<const CudaEvent&>(*event);
  return FromCuda(cudaStreamWaitEvent(stream(queue), cuda_event.event(), 0),
                  "waiting for an event");
}

absl::Status CudaDevice::Synchronize() {
  // All streams, even after an error: their work uses memory that the caller may free next.
  absl::Status first;
  for (const cudaStream_t stream : streams_) {
    if (stream == nullptr) continue;  // Open() has failed
    first.Update(FromCuda(cudaStreamSynchronize(stream), "the device"));
  }
  if (first.ok() && origin_ != nullptr) first = MoveOrigin();
  return first;
}

}  // namespace stowage
