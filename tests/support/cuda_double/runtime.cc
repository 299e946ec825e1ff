// Streams, events and the order of work; memory and what accesses it are in runtime_memory.cc.
#include "tests/support/cuda_double/runtime.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stowage::cuda_double {
namespace {

// Handles are no addresses of host memory. They are never given out twice in a process, so that one
// of before Reset() is known as such.
constexpr uintptr_t kFirstHandle = uintptr_t{0xC0DA} << 40;
constexpr uintptr_t kHandleStep = 16;
uintptr_t next_handle = kFirstHandle;

template <typename Handle>
Handle NewHandle() {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): it is never followed.
  return reinterpret_cast<Handle>(next_handle += kHandleStep);
}

template <typename Values>
auto Drawn(std::mt19937_64& random, const Values& values) {
  return values[random() % values.size()];
}

Memory::Options MemoryOptions(const Options& options, std::mt19937_64& random) {
  return {.bytes = options.memory_bytes,
          .reuse = random() % 2 == 0 ? Memory::Reuse::kAtOnce : Memory::Reuse::kLate,
          .poison = static_cast<std::byte>(1 + random() % 255)};
}

}  // namespace

Runtime::Runtime(const Options& options)
    : options_(options),
      random_(options.seed),
      eagerness_(Drawn(random_, std::array{0.0, 0.0, 0.5, 0.9})),
      seconds_(Drawn(random_, std::array{1e-5, 1e-3, 0.5})),
      memory_(MemoryOptions(options, random_)) {
  for (int device = 0; device < options.devices; ++device) {
    legacy_[device] = &AddStream(device);
    legacy_[device]->is_legacy = true;
  }
}

void Runtime::FailCall(const std::string& entry_point, int n, cudaError_t error) {
  failures_[{entry_point, Calls(entry_point) + n}] = error;
}

void Runtime::FailWork(int n, cudaError_t error) {
  work_until_failure_ = n;
  work_failure_ = error;
}

cudaError_t Runtime::CountCall(const std::string& entry_point) {
  const auto failure = failures_.find({entry_point, ++calls_[entry_point]});
  return failure == failures_.end() ? cudaSuccess : failure->second;
}

int Runtime::Calls(const std::string& entry_point) const {
  const auto calls = calls_.find(entry_point);
  return calls == calls_.end() ? 0 : calls->second;
}

void Runtime::AddReport(Finding finding, std::string text) {
  reports_.push_back({finding, std::move(text)});
}

std::vector<Report> Runtime::Leaks() const {
  std::vector<Report> leaks;
  const auto add = [&leaks](const std::string& what, const CallSite& site) {
    leaks.push_back({Finding::kLeak, absl::StrCat(what, " was never freed\n", site.ToString())});
  };
  for (const Block* block : memory_.All()) {
    add(absl::StrCat(block->bytes, " bytes of ", block->what), block->site);
  }
  for (const auto& [handle, stream] : handles_) add("a stream", stream->site);
  for (const auto& [handle, event] : events_) add("an event", event.site);
  return leaks;
}

Runtime::Stream& Runtime::AddStream(int device) {
  streams_.push_back(std::make_unique<Stream>());
  Stream& stream = *streams_.back();
  stream.actor = actors_++;
  stream.device = device;
  stream.site = CallSite::Here();
  return stream;
}

Runtime::Stream* Runtime::FindStream(cudaStream_t handle, int device, const char* what) {
  if (handle == nullptr || handle == cudaStreamLegacy) return legacy_[device];
  if (handle == cudaStreamPerThread) {
    Stream*& stream = per_thread_[{device, std::this_thread::get_id()}];
    if (stream == nullptr) stream = &AddStream(device);
    return stream;
  }
  const auto found = handles_.find(handle);
  if (found != handles_.end()) return found->second;
  ReportHandle(what, "stream", reinterpret_cast<uintptr_t>(handle));
  return nullptr;
}

Runtime::Event* Runtime::FindEvent(cudaEvent_t handle, const char* what) {
  const auto found = events_.find(handle);
  if (found != events_.end()) return &found->second;
  ReportHandle(what, "event", reinterpret_cast<uintptr_t>(handle));
  return nullptr;
}

void Runtime::ReportHandle(const char* what, const char* kind, uintptr_t handle) {
  const bool was_ours = handle > kFirstHandle && handle <= next_handle;
  AddReport(was_ours ? Finding::kUseAfterFree : Finding::kMisuse,
            absl::StrCat(what, ": ", was_ours ? "a destroyed " : "no ", kind, ", 0x",
                         absl::Hex(handle), "\n", CallSite::Here().ToString()));
}

cudaError_t Runtime::StreamCreate(cudaStream_t* stream, unsigned flags, int device) {
  if (stream == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) {
    return cudaErrorInvalidValue;
  }
  *stream = NewHandle<cudaStream_t>();
  handles_[*stream] = &AddStream(device);
  handles_[*stream]->is_blocking = flags != cudaStreamNonBlocking;
  return cudaSuccess;
}

// Returns at once; work that is enqueued still runs.
cudaError_t Runtime::StreamDestroy(cudaStream_t stream, int device) {
  Stream* const found = FindStream(stream, device, "cudaStreamDestroy");
  if (found == nullptr || handles_.count(stream) == 0) return cudaErrorInvalidResourceHandle;
  found->is_destroyed = true;
  handles_.erase(stream);
  return cudaSuccess;
}

cudaError_t Runtime::StreamSynchronize(cudaStream_t stream, int device) {
  Stream* const found = FindStream(stream, device, "cudaStreamSynchronize");
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  RunUntil(found->last);
  host_.Join(found->clock);
  return sticky_;
}

cudaError_t Runtime::StreamWaitEvent(cudaStream_t stream, cudaEvent_t event, int device) {
  Stream* const found = FindStream(stream, device, "cudaStreamWaitEvent");
  const Event* const awaited = FindEvent(event, "cudaStreamWaitEvent");
  if (found == nullptr || awaited == nullptr) return cudaErrorInvalidResourceHandle;
  if (awaited->record == nullptr) return cudaSuccess;  // as CUDA does: there is nothing to wait for
  found->clock.Join(awaited->record->accessor->clock);
  const auto work = MakeWork(*found, "cudaStreamWaitEvent");
  work->after.push_back(awaited->record);
  Enqueue(*found, work);
  return cudaSuccess;
}

cudaError_t Runtime::EventCreate(cudaEvent_t* event, int device) {
  if (event == nullptr) return cudaErrorInvalidValue;
  *event = NewHandle<cudaEvent_t>();
  events_[*event] = {.device = device, .record = nullptr, .site = CallSite::Here()};
  return cudaSuccess;
}

// Waits that are enqueued still wait: they hold the record.
cudaError_t Runtime::EventDestroy(cudaEvent_t event) {
  if (FindEvent(event, "cudaEventDestroy") == nullptr) return cudaErrorInvalidResourceHandle;
  events_.erase(event);
  return cudaSuccess;
}

cudaError_t Runtime::EventRecord(cudaEvent_t event, cudaStream_t stream, int device) {
  Event* const found = FindEvent(event, "cudaEventRecord");
  Stream* const recorded = FindStream(stream, device, "cudaEventRecord");
  if (found == nullptr || recorded == nullptr) return cudaErrorInvalidResourceHandle;
  if (found->device != recorded->device) {
    AddReport(Finding::kMisuse, absl::StrCat("cudaEventRecord: the event is of device ",
                                             found->device, ", the stream of device ",
                                             recorded->device, "\n", CallSite::Here().ToString()));
    return cudaErrorInvalidResourceHandle;
  }
  found->record = MakeWork(*recorded, "cudaEventRecord");
  Enqueue(*recorded, found->record);
  return cudaSuccess;
}

cudaError_t Runtime::EventSynchronize(cudaEvent_t event) {
  const Event* const found = FindEvent(event, "cudaEventSynchronize");
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  if (found->record == nullptr) return cudaSuccess;
  RunUntil(found->record);
  host_.Join(found->record->accessor->clock);
  return sticky_;
}

cudaError_t Runtime::EventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (milliseconds == nullptr) return cudaErrorInvalidValue;
  const Event* const first = FindEvent(start, "cudaEventElapsedTime");
  const Event* const second = FindEvent(end, "cudaEventElapsedTime");
  if (first == nullptr || second == nullptr) return cudaErrorInvalidResourceHandle;
  if (first->record == nullptr || second->record == nullptr) return cudaErrorInvalidResourceHandle;
  if (!first->record->has_run || !second->record->has_run) return cudaErrorNotReady;
  *milliseconds =
      static_cast<float>(1e3 * (second->record->end_seconds - first->record->end_seconds));
  return cudaSuccess;
}

std::shared_ptr<Work> Runtime::MakeWork(Stream& stream, const char* what) {
  auto work = std::make_shared<Work>();
  const auto run_after = [&](const Stream& other) {
    if (other.last == nullptr) return;
    work->after.push_back(other.last);
    stream.clock.Join(other.clock);
  };
  // The legacy default stream and the blocking ones of its device wait for each other.
  if (stream.is_legacy) {
    for (const auto& other : streams_) {
      if (other->device == stream.device && other->is_blocking) run_after(*other);
    }
  } else if (stream.is_blocking) {
    run_after(*legacy_[stream.device]);
  }
  stream.clock.Join(host_);
  work->accessor->what = what;
  work->accessor->site = CallSite::Here();
  work->accessor->moment = stream.clock.Tick(stream.actor);
  work->accessor->clock = stream.clock;
  return work;
}

void Runtime::Enqueue(Stream& stream, const std::shared_ptr<Work>& work) {
  stream.pending.push_back(work);
  stream.last = work;
  while (Chance(eagerness_) && RunOne()) {
  }
}

bool Runtime::Chance(double probability) {
  return std::generate_canonical<double, 32>(random_) < probability;
}

bool Runtime::IsReady(const Stream& stream) const {
  if (stream.pending.empty()) return false;
  const auto& after = stream.pending.front()->after;
  return std::all_of(after.begin(), after.end(), [](const auto& work) { return work->has_run; });
}

// Runs the first work of a stream, which is drawn from all that may go on.
bool Runtime::RunOne() {
  std::vector<Stream*> ready;
  for (const auto& stream : streams_) {
    if (IsReady(*stream)) ready.push_back(stream.get());
  }
  if (ready.empty()) return false;
  Stream& stream = *Drawn(random_, ready);
  const std::shared_ptr<Work> work = stream.pending.front();
  stream.pending.pop_front();
  Run(*work);
  return true;
}

void Runtime::Run(Work& work) {
  now_ += seconds_ * static_cast<double>(1 + random_() % 8) / 8;
  if (work.can_fail && work_until_failure_ > 0 && --work_until_failure_ == 0) {
    sticky_ = work_failure_;
  }
  // After an error the device runs nothing, but events happen and waits end.
  if (work.run && sticky_ == cudaSuccess) sticky_ = work.run();
  work.run = nullptr;
  work.after.clear();
  work.end_seconds = now_;
  work.has_run = true;
}

void Runtime::RunUntil(const std::shared_ptr<Work>& work) {
  // All that a work waits for was enqueued before it, so that some stream can always go on.
  while (work != nullptr && !work->has_run && RunOne()) {
  }
}

}  // namespace stowage::cuda_double
