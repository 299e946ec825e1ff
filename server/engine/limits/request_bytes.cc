#include "server/engine/limits/request_bytes.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "server/events/rejection.h"
#include "solver/base/mutex.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

// The parts of a request whose size does not depend on the chain.
constexpr int64_t kFixedBytes = 1024;

int64_t HeapBytes(const std::string& text) {
  static const size_t inside = std::string().capacity();  // of the object itself
  return text.capacity() > inside ? static_cast<int64_t>(text.capacity()) : 0;
}

int64_t HeapBytes(const std::vector<std::string>& texts) {
  auto bytes = static_cast<int64_t>(texts.capacity() * sizeof(std::string));
  for (const std::string& text : texts) bytes += HeapBytes(text);
  return bytes;
}

int64_t HeapBytes(const Stage& stage) {
  int64_t bytes = HeapBytes(stage.name) + HeapBytes(stage.fusion_group) +
                  static_cast<int64_t>(stage.save_options.capacity() * sizeof(SaveOption));
  for (const SaveOption& option : stage.save_options) {
    bytes += HeapBytes(option.name) + HeapBytes(option.kept) + HeapBytes(option.rerun);
  }
  return bytes;
}

// Of the rounded instance, which has no names, but as many stages and options, and their units.
int64_t InstanceBytes(const Chain& chain) {
  auto bytes = static_cast<int64_t>(chain.stages.size() * (sizeof(Stage) + sizeof(Unit)));
  for (const Stage& stage : chain.stages) {
    bytes += static_cast<int64_t>(stage.save_options.size() * sizeof(SaveOption));
  }
  return bytes;
}

}  // namespace

struct RequestBytes::Totals {
  explicit Totals(int64_t most) : max_bytes(most) {}

  Mutex mutex;
  int64_t max_bytes ABSL_GUARDED_BY(mutex);
  int64_t held ABSL_GUARDED_BY(mutex) = 0;
  absl::flat_hash_map<std::string, int64_t> of_clients ABSL_GUARDED_BY(mutex);  // above 0

  void Subtract(int64_t bytes, const std::string& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const auto of_client = of_clients.find(client);
    of_client->second -= bytes;
    if (of_client->second == 0) of_clients.erase(of_client);
  }
};

RequestBytes::RequestBytes(int64_t max_bytes) : totals_(std::make_shared<Totals>(max_bytes)) {}

void RequestBytes::SetMaxBytes(int64_t max_bytes) {
  MutexLock lock(totals_->mutex);
  totals_->max_bytes = max_bytes;
}

int64_t RequestBytes::max_bytes() const {
  MutexLock lock(totals_->mutex);
  return totals_->max_bytes;
}

absl::StatusOr<RequestBytes::Hold> RequestBytes::Take(int64_t bytes, const std::string& client) {
  int64_t of_client = bytes;
  {
    MutexLock lock(totals_->mutex);
    const auto before = totals_->of_clients.find(client);
    if (before != totals_->of_clients.end()) of_client += before->second;
    if (of_client <= totals_->max_bytes - totals_->held - bytes) {
      totals_->of_clients[client] = of_client;
      totals_->held += bytes;
      return Hold(totals_, client, bytes);
    }
  }
  return Rejected("request_memory",
                  absl::StrCat("with this one the requests of this client that wait or are in work "
                               "would take ",
                               FormatBytes(of_client),
                               " of the server's memory, more than is left for others; try again "
                               "in a second"),
                  /*retry_after_seconds=*/1);
}

RequestBytes::Hold::Hold(std::shared_ptr<Totals> totals, const std::string& client, int64_t bytes)
    : totals_(std::move(totals)), client_(std::make_unique<std::string>(client)), bytes_(bytes) {}

RequestBytes::Hold& RequestBytes::Hold::operator=(Hold&& other) noexcept {
  if (this == &other) return *this;
  Release();
  totals_ = std::move(other.totals_);
  client_ = std::move(other.client_);
  bytes_ = other.bytes_;
  return *this;
}

void RequestBytes::Hold::ChargeTo(const std::string& client) const {
  if (totals_ == nullptr || bytes_ == 0) return;
  MutexLock lock(totals_->mutex);
  if (*client_ == client) return;
  totals_->Subtract(bytes_, *client_);
  totals_->of_clients[client] += bytes_;
  *client_ = client;
}

void RequestBytes::Hold::ShrinkTo(int64_t bytes) {
  if (totals_ == nullptr || bytes_ == bytes) return;
  MutexLock lock(totals_->mutex);
  totals_->held -= bytes_ - bytes;
  totals_->Subtract(bytes_ - bytes, *client_);
  bytes_ = bytes;
}

void RequestBytes::Hold::Release() {
  ShrinkTo(0);
  totals_ = nullptr;
}

int64_t BytesOf(const Chain& chain) {
  auto bytes = static_cast<int64_t>(chain.stages.capacity() * sizeof(Stage));
  for (const Stage& stage : chain.stages) bytes += HeapBytes(stage);
  return bytes;
}

int64_t BytesOf(const SolveRequest& request) {
  return kFixedBytes + BytesOf(request.chain) + InstanceBytes(request.chain);
}

int64_t BytesOf(const FrontierRequest& request) {
  return kFixedBytes + BytesOf(request.chain) +
         static_cast<int64_t>(request.budgets.capacity() * sizeof(int64_t));
}

int64_t BytesOf(const SimulateRequest& request) {
  return kFixedBytes + BytesOf(request.chain) +
         static_cast<int64_t>(request.schedule.operations.capacity() * sizeof(Operation));
}

int64_t BytesOf(const AdmitRequest& request) {
  auto bytes = kFixedBytes + BytesOf(request.job.chain) +
               static_cast<int64_t>(request.job.components.capacity() * sizeof(Component) +
                                    request.devices.capacity() * sizeof(JobDevice));
  for (const Component& component : request.job.components) bytes += HeapBytes(component.name);
  for (const JobDevice& device : request.devices) bytes += HeapBytes(device.platform.name);
  return bytes;
}

}  // namespace stowage
