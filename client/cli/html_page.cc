#include "client/cli/html_page.h"

#include "proto/convert/answer_message.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "proto/convert/schedule_message.h"
#include "proto/convert/view_message.h"
#include "server/web/page.h"
#include "solver/base/file.h"
#include "solver/base/prefixed.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/simulator/explain.h"
#include "solver/solve/checked_answer.h"

namespace stowage {
namespace {

absl::Status Simulate(const Chain& chain, const Platform& platform, const Schedule& schedule,
                      v1::ViewedSchedule* viewed) {
  ASSIGN_OR_RETURN(const ExplainedSimulation simulation,
                   SimulateAndExplain(chain, ChainUnits(chain), platform, schedule));
  Fill(simulation, ExplainMemory(chain, platform, schedule), viewed);
  return absl::OkStatus();
}

}  // namespace

void AddHtml(CLI::App& command, std::string* path) {
  command
      .add_option("--html", *path,
                  "file to write a page to that shows the result in a browser; it needs no network")
      ->type_name("FILE")
      ->group("Output");
}

v1::View ViewOf(const v1::Chain& message, const Chain& chain) {
  v1::View view;
  *view.mutable_chain() = message;
  const MemoryFloor floor = FloorOfMemory(chain);
  view.set_store_all_seconds(ComputeSeconds(chain));
  view.set_memory_floor_bytes(floor.bytes);
  *view.mutable_memory_floor_operation() = ToMessage(floor.operation);
  view.set_most_memory_bytes(StoreAllPeakBytes(chain));
  return view;
}

absl::StatusOr<v1::ViewedSchedule> ViewedAnswer(const Chain& chain, const Platform& platform,
                                                const SolveResult& result) {
  v1::ViewedSchedule viewed;
  *viewed.mutable_answer() = ToMessage(result, platform);
  if (result.answer->outcome != Outcome::kInfeasible) {
    RETURN_IF_ERROR(Simulate(chain, platform, result.answer->schedule, &viewed));
  }
  return viewed;
}

absl::StatusOr<v1::ViewedSchedule> ViewedSimulation(const SimulateRequest& request) {
  v1::ViewedSchedule viewed;
  *viewed.mutable_answer()->mutable_schedule() = ToMessage(request.schedule);
  *viewed.mutable_answer()->mutable_platform() = ToMessage(request.platform);
  RETURN_IF_ERROR(Simulate(request.chain, request.platform, request.schedule, &viewed));
  return viewed;
}

absl::Status WriteHtml(const std::string& path, const v1::View& view) {
  if (path.empty()) return absl::OkStatus();
  return Prefixed("--html", WriteFile(path, PageOf(ToHtmlJson(view))));
}

}  // namespace stowage
