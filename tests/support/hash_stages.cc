#include "tests/support/hash_stages.h"

#include <algorithm>

namespace stowage {
namespace {

// One step of a multiplicative hash with Knuth's golden-ratio constant.
uint64_t Mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 29);
}

uint64_t HashOf(DeviceSpan span) {
  uint64_t hash = static_cast<uint64_t>(span.bytes);
  for (int64_t i = 0; i < span.bytes; ++i) {
    hash = Mixed(hash, static_cast<uint64_t>(span.data[i]));
  }
  return hash;
}

// Byte i depends only on i and the seed, so that a^l is a prefix of ā^l.
void Fill(DeviceSpan span, uint64_t seed) {
  for (int64_t i = 0; i < span.bytes; ++i) {
    span.data[i] = static_cast<std::byte>(Mixed(seed, static_cast<uint64_t>(i)) >> 24);
  }
}

DeviceSpan SpanOf(std::vector<std::byte>& bytes) {
  return {bytes.data(), static_cast<int64_t>(bytes.size())};
}

}  // namespace

HashStages::HashStages(const Chain& chain, uint64_t seed) : chain_(chain), seed_(seed) {}

absl::Status HashStages::Begin(DeviceSpan input, void* /*stream*/) {
  digest_ = {std::vector<uint64_t>(static_cast<size_t>(chain_.length()) + 2), 0};
  Fill(input, seed_);
  return absl::OkStatus();
}

absl::Status HashStages::Forward(const ForwardCall& call, const ForwardSpans& spans) {
  const uint64_t read = Mixed(static_cast<uint64_t>(call.stage), HashOf(spans.input));
  Fill(spans.value, read);
  Fill(spans.workspace, 0xDEAD);
  return absl::OkStatus();
}

absl::Status HashStages::Backward(const BackwardCall& call, const BackwardSpans& spans) {
  // An input that the backward does not read may be gone.
  const bool reads = !chain_.stage(call.stage).input_unread;
  uint64_t read = Mixed(static_cast<uint64_t>(call.stage), reads ? HashOf(spans.input) : 0);
  read = Mixed(read, HashOf(spans.value));
  read = Mixed(read, HashOf(spans.gradient));
  digest_.backwards[static_cast<size_t>(call.stage)] = read;
  Fill(spans.input_gradient, read);
  Fill(spans.workspace, 0xBEEF);
  return absl::OkStatus();
}

absl::Status HashStages::End(DeviceSpan input_gradient, void* /*stream*/) {
  digest_.input_gradient = HashOf(input_gradient);
  return absl::OkStatus();
}

FrameworkHashStages::FrameworkHashStages(const Chain& chain, uint64_t seed)
    : chain_(chain),
      stages_(chain, seed),
      values_(static_cast<size_t>(chain.length()) + 2),
      gradients_(values_.size()),
      saved_(values_.size()) {}

DeviceSpan FrameworkHashStages::Resize(Bytes* bytes, int64_t size) {
  bytes->resize(static_cast<size_t>(size));
  return SpanOf(*bytes);
}

DeviceSpan FrameworkHashStages::Input(int l) {
  DeviceSpan input = SpanOf(values_[static_cast<size_t>(l) - 1]);
  input.bytes = std::min(input.bytes, chain_.output_bytes(l - 1));
  return input;
}

absl::Status FrameworkHashStages::Begin(void* stream) {
  return stages_.Begin(Resize(&values_[0], chain_.input_bytes), stream);
}

absl::Status FrameworkHashStages::Forward(const ForwardCall& call) {
  const auto l = static_cast<size_t>(call.stage);
  saved_[l] = Saves(call.kind);
  const int64_t bytes =
      saved_[l] ? chain_.saved_bytes(call.stage) : chain_.output_bytes(call.stage);
  const DeviceSpan value = Resize(&values_[l], bytes);
  absl::Status status =
      stages_.Forward(call, {.input = Input(call.stage), .value = value, .workspace = {}});
  if (Discards(call.kind)) values_[l - 1] = {};
  return status;
}

absl::Status FrameworkHashStages::Backward(const BackwardCall& call) {
  const auto l = static_cast<size_t>(call.stage);
  BackwardSpans spans;
  spans.input = Input(call.stage);
  spans.value = SpanOf(values_[l]);
  spans.gradient = SpanOf(gradients_[l]);
  spans.input_gradient = Resize(&gradients_[l - 1], chain_.gradient_bytes(call.stage - 1));
  absl::Status status = stages_.Backward(call, spans);
  gradients_[l] = {};
  values_[l] = {};
  if (!saved_[l - 1]) values_[l - 1] = {};
  return status;
}

absl::Status FrameworkHashStages::End(void* stream) {
  absl::Status status = stages_.End(SpanOf(gradients_[0]), stream);
  gradients_[0] = {};
  return status;
}

absl::Status FrameworkHashStages::CopyToHost(int l, PinnedSpan to, void* /*stream*/) {
  const Bytes& value = values_[static_cast<size_t>(l)];
  if (static_cast<int64_t>(value.size()) != to.bytes) {
    return absl::InternalError("the host copy is of another size");
  }
  std::copy(value.begin(), value.end(), to.data);
  return absl::OkStatus();
}

absl::Status FrameworkHashStages::Release(int l) {
  values_[static_cast<size_t>(l)] = {};
  return absl::OkStatus();
}

absl::Status FrameworkHashStages::CopyToDevice(int l, PinnedSpan from, void* /*stream*/) {
  values_[static_cast<size_t>(l)].assign(from.data, from.data + from.bytes);
  return absl::OkStatus();
}

void FrameworkHashStages::Abandon() {
  for (Bytes& value : values_) value = {};
  for (Bytes& gradient : gradients_) gradient = {};
}

int64_t FrameworkHashStages::held_bytes() const {
  int64_t held = 0;
  for (const Bytes& value : values_) held += static_cast<int64_t>(value.size());
  for (const Bytes& gradient : gradients_) held += static_cast<int64_t>(gradient.size());
  return held;
}

Digest PlainStep(const Chain& chain, uint64_t seed) {
  FrameworkHashStages stages(chain, seed);
  (void)stages.Begin(nullptr);
  const int count = chain.length() + 1;
  for (int l = 1; l <= count; ++l) (void)stages.Forward({.stage = l});
  for (int l = count; l >= 1; --l) (void)stages.Backward({.stage = l});
  (void)stages.End(nullptr);
  return stages.digest();
}

}  // namespace stowage
