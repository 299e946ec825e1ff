#include <cstdlib>
#include <string>

#include "proto/convert/answer_message.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "proto/convert/request_message.h"
#include "proto/convert/schedule_message.h"
#include "solver/base/quote.h"
#include "solver/model/validate.h"
#include "solver/solve/request_violations.h"
#include "stowage/v1/scheduler.pb.h"
#include "tests/fuzz/targets.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

constexpr int kFewStages = 4;

// An error is one line, however long and broken the text is.
void RequireOneLine(const absl::Status& status) {
  const absl::string_view message = status.message();
  Require(!message.empty() && message.size() < 4000, "an error as long as its cause");
  Require(message.find('\n') == absl::string_view::npos, "an error of several lines");
  Require(ValidUtf8(message) == message, "an error that is not UTF-8");
}

// What was read is written so that it is read as the same.
template <typename Message>
bool ReadsTwice(absl::string_view text, const char* root, Message* message) {
  const absl::Status status = FromJson(text, root, message);
  if (!status.ok()) {
    RequireOneLine(status);
    return false;
  }
  Message again;
  Require(FromJson(ToJson(*message), root, &again).ok(), "JSON of ours that cannot be read");
  Require(again.DebugString() == message->DebugString(), "JSON that changes a message");
  return true;
}

}  // namespace

void FuzzJson(absl::string_view bytes) {
  v1::SolveRequest message;
  if (ReadsTwice(bytes, "request", &message)) {
    std::vector<FieldViolation> violations;
    const SolveRequest request = FromMessage(message, &violations);
    const std::vector<FieldViolation> more = RequestViolations(request);
    if (violations.empty() && more.empty()) SolveAndCheck(request);
  }
  v1::Chain chain;
  if (ReadsTwice(bytes, "chain", &chain)) {
    SolveRequest request;
    request.chain = FromMessage(chain);
    request.platform.memory_bytes = 1 << 20;
    if (RequestViolations(request).empty()) SolveAndCheck(request);
  }
  v1::Platform platform;
  ReadsTwice(bytes, "platform", &platform);
  const absl::StatusOr<ScheduleFile> file = ScheduleFromJson(bytes);
  if (!file.ok()) return RequireOneLine(file.status());
  std::vector<FieldViolation> violations;
  const Schedule schedule = FromMessage(file->schedule, &violations);
  if (violations.empty())
    Require(ToMessage(schedule).operations_size() == file->schedule.operations_size(),
            "operations were lost");
}

std::vector<std::string> JsonSeeds() {
  std::vector<std::string> seeds = {
      R"({"operations": [{"kind": "FORWARD_SAVE", "stage": 1}, {"kind": "BACKWARD", "stage": 1}]})",
      R"({"memory_bytes": "1024", "offload_bytes_per_second": 1e9, "half_duplex": true})",
  };
  for (const char* name : {"torchvision-resnet18-16-500", "pipedream-vgg16-128-224"}) {
    v1::SolveRequest request;
    if (!FromJson(ReadFile(ProfilePath(name)), "chain", request.mutable_chain()).ok()) std::abort();
    auto& stages = *request.mutable_chain()->mutable_stages();
    stages.DeleteSubrange(kFewStages, stages.size() - kFewStages);
    seeds.push_back(ToJson(request.chain()));
    request.mutable_platform()->set_memory_bytes(int64_t{1} << 32);
    request.mutable_platform()->set_offload_bytes_per_second(1e10);
    seeds.push_back(ToJson(request));
  }
  return seeds;
}

}  // namespace stowage
