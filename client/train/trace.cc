#include "client/train/trace.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "solver/model/schedule.h"

namespace stowage {
namespace {

using nlohmann::json;

constexpr int kMeasured = 1;
constexpr int kPredicted = 2;
constexpr std::array<const char*, kQueues> kQueueNames = {"compute", "to host", "to device"};

class Events {
 public:
  explicit Events(const Plan& plan) : plan_(plan) {
    NameProcess(kMeasured, "measured");
    NameProcess(kPredicted, "predicted");
  }

  void Add(int process, size_t index, double start_seconds, double end_seconds, int64_t bytes) {
    const Command& command = plan_.commands[index];
    const std::string& stage = plan_.chain().stage(command.stage == 0 ? 1 : command.stage).name;
    json event = {{"ph", "X"},
                  {"pid", process},
                  {"tid", static_cast<int>(command.queue)},
                  {"name", plan_.NameOf(command)},
                  {"ts", Microseconds(start_seconds)},
                  {"dur", Microseconds(end_seconds - start_seconds)},
                  {"args", {{"operation", index}, {"run", command.run}}}};
    if (command.stage > 0 && !stage.empty()) event["args"]["stage"] = stage;
    events_.push_back(std::move(event));
    if (bytes < 0 || command.queue != Queue::kCompute) return;
    events_.push_back({{"ph", "C"},
                       {"pid", process},
                       {"name", "device memory"},
                       {"ts", Microseconds(start_seconds)},
                       {"args", {{"bytes", bytes}}}});
  }

  std::string ToString() const {
    // Names may come from anywhere: what is no UTF-8 is replaced.
    return json{{"traceEvents", events_}, {"displayTimeUnit", "ms"}}.dump(
        -1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
  }

 private:
  static double Microseconds(double seconds) { return seconds * 1e6; }

  void NameProcess(int process, const char* name) {
    Name("process_name", process, 0, name);
    for (int queue = 0; queue < kQueues; ++queue) {
      Name("thread_name", process, queue, kQueueNames[static_cast<size_t>(queue)]);
    }
  }

  void Name(const char* what, int process, int thread, const char* name) {
    events_.push_back({{"ph", "M"},
                       {"pid", process},
                       {"tid", thread},
                       {"name", what},
                       {"args", {{"name", name}}}});
  }

  const Plan& plan_;
  json events_ = json::array();
};

}  // namespace

std::string TraceJson(const Plan& plan, const MeasuredStep& measured,
                      const std::vector<TimelineEntry>& predicted) {
  Events events(plan);
  for (size_t i = 0; i < plan.commands.size(); ++i) {
    const CommandTimes& times = measured.times[i];
    events.Add(kMeasured, i, times.start_seconds, times.end_seconds, measured.peaks[i]);
    events.Add(kPredicted, i, predicted[i].start_seconds, predicted[i].end_seconds,
               predicted[i].memory_bytes);
  }
  return events.ToString();
}

}  // namespace stowage
