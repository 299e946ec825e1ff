#include "tests/support/cuda_double/process.h"

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace stowage::cuda_double {

Process& Process::Get() {
  static Process* const process = new Process;
  return *process;
}

Process::Process() : runtime_(std::make_unique<Runtime>(Options())) {
  (void)std::atexit([] {
    Process& process = Get();
    const MutexLock lock(process.mutex_);
    process.EndOnReports();
  });
}

void Process::Reset(const Options& options) {
  const MutexLock lock(mutex_);
  EndOnReports();
  runtime_ = std::make_unique<Runtime>(options);
  ++generation_;
}

void Process::EndOnReports() {
  const std::vector<Report> reports = runtime_->TakeReports();
  for (const Report& report : reports) {
    (void)std::fprintf(stderr, "cuda_double: not taken: %s\n", report.text.c_str());
  }
  if (!reports.empty()) std::_Exit(1);
}

void Reset(const Options& options) { Process::Get().Reset(options); }

std::vector<Report> TakeReports() {
  return Process::Get().With([](Runtime& runtime, Thread&) { return runtime.TakeReports(); });
}

std::vector<Report> Leaks() {
  return Process::Get().With([](Runtime& runtime, Thread&) { return runtime.Leaks(); });
}

void FailCall(const std::string& entry_point, int n, cudaError_t error) {
  Process::Get().With([&](Runtime& runtime, Thread&) { runtime.FailCall(entry_point, n, error); });
}

void FailWork(int n, cudaError_t error) {
  Process::Get().With([&](Runtime& runtime, Thread&) { runtime.FailWork(n, error); });
}

void IgnoreCalls(const std::string& entry_point) {
  Process::Get().With([&](Runtime& runtime, Thread&) { runtime.IgnoreCalls(entry_point); });
}

int Calls(const std::string& entry_point) {
  return Process::Get().With([&](Runtime& runtime, Thread&) { return runtime.Calls(entry_point); });
}

std::byte* View(const void* data) { return Memory::View(data); }

void Touch(const Range& range) {
  Process::Get().With([&](Runtime& runtime, Thread&) { runtime.Touch(range); });
}

}  // namespace stowage::cuda_double
