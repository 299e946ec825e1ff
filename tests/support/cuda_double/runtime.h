// The state of the double: devices, streams, events, and the work that is enqueued. Invariants:
// - A work runs after the one before it in its stream and after those in `after`; nothing else
//   orders it. Streams run nothing until a call forces them, or the seed wants it.
// - Clocks say the same: a work's clock joins those of all that it runs after, and the host's when
//   it was enqueued. They are known when a work is enqueued, so that races do not depend on the
//   order in which work happens to run.
#ifndef STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_RUNTIME_H_
#define STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/cuda_double/clock.h"
#include "tests/support/cuda_double/cuda_double.h"
#include "tests/support/cuda_double/memory.h"

namespace stowage::cuda_double {

// What a stream runs.
struct Work {
  std::shared_ptr<Accessor> accessor = std::make_shared<Accessor>();
  std::vector<std::shared_ptr<Work>> after;
  std::function<cudaError_t()> run;  // empty: an event, or a wait
  bool can_fail = false;             // counted by FailWork(): copies and kernels
  bool has_run = false;
  double end_seconds = 0;
};

// Not thread-safe. `device`: the calling thread's current one. Results are those of the entry
// points of the same names.
class Runtime {
 public:
  explicit Runtime(const Options& options);

  const Options& options() const { return options_; }
  cudaError_t sticky() const { return sticky_; }
  std::vector<Report> TakeReports() { return std::exchange(reports_, {}); }
  std::vector<Report> Leaks() const;
  void FailCall(const std::string& entry_point, int n, cudaError_t error);
  void FailWork(int n, cudaError_t error);
  void IgnoreCalls(const std::string& entry_point) { ignored_.insert(entry_point); }
  bool Ignores(const std::string& entry_point) const { return ignored_.count(entry_point) > 0; }
  // Counts a call; the error that it is made to fail with.
  cudaError_t CountCall(const std::string& entry_point);
  int Calls(const std::string& entry_point) const;
  void AddReport(Finding finding, std::string text);

  cudaError_t StreamCreate(cudaStream_t* stream, unsigned flags, int device);
  cudaError_t StreamDestroy(cudaStream_t stream, int device);
  cudaError_t StreamSynchronize(cudaStream_t stream, int device);
  cudaError_t StreamWaitEvent(cudaStream_t stream, cudaEvent_t event, int device);
  cudaError_t EventCreate(cudaEvent_t* event, int device);
  cudaError_t EventDestroy(cudaEvent_t event);
  cudaError_t EventRecord(cudaEvent_t event, cudaStream_t stream, int device);
  cudaError_t EventSynchronize(cudaEvent_t event);
  cudaError_t EventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);
  cudaError_t Malloc(void** data, size_t bytes, int device);
  cudaError_t MallocAsync(void** data, size_t bytes, cudaStream_t stream, int device);
  cudaError_t Free(void* data);
  cudaError_t FreeAsync(void* data, cudaStream_t stream, int device);
  cudaError_t HostRegister(void* data, size_t bytes);
  cudaError_t HostUnregister(void* data);
  cudaError_t MemcpyAsync(const Range& to, const Range& from, cudaMemcpyKind kind,
                          cudaStream_t stream, int device);
  cudaError_t LaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data, int device);
  cudaError_t LaunchKernel(cudaStream_t stream, const std::vector<Range>& ranges,
                           std::function<void()> body, int device);
  void Touch(const Range& range);

  // Whether the calling thread runs a host function or a kernel; the runtime that runs it.
  static Runtime* running();

 private:
  struct Stream {
    size_t actor = 0;
    int device = 0;
    bool is_legacy = false;
    bool is_blocking = true;  // ordered with the legacy default stream
    bool is_destroyed = false;
    std::deque<std::shared_ptr<Work>> pending;
    std::shared_ptr<Work> last;
    Clock clock;
    CallSite site;
  };
  struct Event {
    int device = 0;
    std::shared_ptr<Work> record;  // null: never recorded
    CallSite site;
  };
  enum class Kind { kDevice, kRegistered, kPageable, kInvalid };
  struct Place {
    Kind kind = Kind::kInvalid;
    Block* block = nullptr;  // of kDevice and kRegistered
  };

  Stream& AddStream(int device);
  // Null: there is no such stream, which is reported.
  Stream* FindStream(cudaStream_t handle, int device, const char* what);
  Event* FindEvent(cudaEvent_t handle, const char* what);
  void ReportHandle(const char* what, const char* kind, uintptr_t handle);

  std::shared_ptr<Work> MakeWork(Stream& stream, const char* what);
  void Enqueue(Stream& stream, const std::shared_ptr<Work>& work);
  bool IsReady(const Stream& stream) const;
  bool RunOne();
  void Run(Work& work);
  void RunUntil(const std::shared_ptr<Work>& work);
  bool Chance(double probability);

  std::shared_ptr<const Accessor> HostAccessor(const char* what);
  Place FindPlace(const Range& range, const char* what);
  void ReportNoBlock(const Range& range, const char* what);
  void AddAccess(Block* block, const Range& range, const std::shared_ptr<const Accessor>& accessor);
  bool IsStillThere(const Range& range, Kind kind);

  const Options options_;
  std::mt19937_64 random_;
  const double eagerness_;  // how likely work runs before a call forces it
  const double seconds_;    // that a work takes, about
  Memory memory_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::map<cudaStream_t, Stream*> handles_;
  std::map<int, Stream*> legacy_;  // by device
  std::map<std::pair<int, std::thread::id>, Stream*> per_thread_;
  std::map<cudaEvent_t, Event> events_;
  size_t actors_ = 1;
  Clock host_;
  double now_ = 0;
  cudaError_t sticky_ = cudaSuccess;
  int work_until_failure_ = 0;  // 0: none is to fail
  cudaError_t work_failure_ = cudaSuccess;
  std::map<std::string, int> calls_;
  std::map<std::pair<std::string, int>, cudaError_t> failures_;  // by entry point and call
  std::set<std::string> ignored_;                                // entry points
  std::vector<Report> reports_;
};

}  // namespace stowage::cuda_double

#endif  // STOWAGE_TESTS_SUPPORT_CUDA_DOUBLE_RUNTIME_H_
