// Events of the format: "X" is an interval on a thread of a process, "C" a counter, "M" a name.
#include "client/train/trace.h"

#include <array>

#include "nlohmann/json.hpp"
#include "solver/model/schedule.h"

namespace stowage {
namespace {

using nlohmann::json;

// Process numbers in the trace.
constexpr int kMeasured = 1;
constexpr int kPredicted = 2;
constexpr std::array<const char*, kQueues> kQueueNames = {"compute", "to host", "to device"};

// An operation's interval in one of the processes.
struct TraceEvent {
  int process = kMeasured;
  size_t command = 0;
  CommandTimes times;
  int64_t memory_bytes = -1;  // negative: not measured
};

class TraceWriter {
 public:
  explicit TraceWriter(const Plan& plan) : plan_(plan) {
    NameProcess(kMeasured, "measured");
    NameProcess(kPredicted, "predicted");
  }

  void Add(const TraceEvent& added) {
    const Command& command = plan_.commands[added.command];
    // A copy of value 0 has no stage of its own.
    const std::string& stage = plan_.chain().stage(command.stage == 0 ? 1 : command.stage).name;
    json event = {{"ph", "X"},
                  {"pid", added.process},
                  {"tid", static_cast<int>(command.queue)},
                  {"name", plan_.NameOf(command)},
                  {"ts", Microseconds(added.times.start_seconds)},
                  {"dur", Microseconds(added.times.end_seconds - added.times.start_seconds)},
                  {"args", {{"operation", added.command}, {"run", command.run}}}};
    if (command.stage > 0 && !stage.empty()) event["args"]["stage"] = stage;
    events_.push_back(std::move(event));
    // The counter of device memory; copies have none.
    if (added.memory_bytes < 0 || command.queue != Queue::kCompute) return;
    events_.push_back({{"ph", "C"},
                       {"pid", added.process},
                       {"name", "device memory"},
                       {"ts", Microseconds(added.times.start_seconds)},
                       {"args", {{"bytes", added.memory_bytes}}}});
  }

  std::string ToString() const {
    // Stage names may be any bytes; invalid UTF-8 is replaced.
    return json{{"traceEvents", events_}, {"displayTimeUnit", "ms"}}.dump(
        -1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
  }

 private:
  static double Microseconds(double seconds) { return seconds * 1e6; }

  void NameProcess(int process, const char* name) {
    AddName("process_name", process, 0, name);
    for (int queue = 0; queue < kQueues; ++queue) {
      AddName("thread_name", process, queue, kQueueNames[static_cast<size_t>(queue)]);
    }
  }

  void AddName(const char* what, int process, int thread, const char* name) {
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
  TraceWriter writer(plan);
  for (size_t i = 0; i < plan.commands.size(); ++i) {
    writer.Add({kMeasured, i, measured.times[i], measured.peaks[i]});
    writer.Add({kPredicted,
                i,
                {predicted[i].start_seconds, predicted[i].end_seconds},
                predicted[i].memory_bytes});
  }
  return writer.ToString();
}

}  // namespace stowage
