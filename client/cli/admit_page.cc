#include "client/cli/admit_page.h"

#include <filesystem>

#include "client/cli/html_page.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/verdict_message.h"
#include "proto/service/results.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"
#include "solver/model/chain.h"
#include "solver/model/modes.h"
#include "solver/solve/admit.h"

namespace stowage {
namespace {

absl::StatusOr<v1::ViewedVerdict> Viewed(const v1::Job& job, const AdmitRequest& request,
                                         const Verdict& verdict) {
  v1::ViewedVerdict viewed;
  *viewed.mutable_verdict() = ToMessage(verdict);
  viewed.mutable_verdict()->clear_plan();
  const JobDevice& device = request.devices[verdict.device];
  *viewed.mutable_device()->mutable_platform() = ToMessage(device.platform);
  viewed.mutable_device()->set_price(device.price);
  for (const Component& part : PartsOfPeak(request.job, verdict)) {
    *viewed.add_parts() = ToMessage(part);
  }
  const Chain& chain = request.job.chain;
  viewed.set_step_seconds(ComputeSeconds(chain));
  if (verdict.plan == nullptr) return viewed;
  viewed.set_step_seconds(verdict.plan->prediction.makespan_seconds);
  *viewed.mutable_plan() = ViewOf(job.chain(), chain);
  ASSIGN_OR_RETURN(*viewed.mutable_plan()->add_schedules(),
                   ViewedAnswer(chain, verdict.platform, SolveResult{verdict.plan, Origin()}));
  return viewed;
}

}  // namespace

absl::StatusOr<v1::ViewedJob> ViewedVerdicts(const std::string& path, const v1::Job& job,
                                             const AdmitRequest& request,
                                             const std::vector<Verdict>& verdicts) {
  v1::ViewedJob viewed;
  viewed.set_name(Printable(std::filesystem::path(path).stem().string()));
  for (const Verdict& verdict : verdicts) {
    ASSIGN_OR_RETURN(*viewed.add_verdicts(), Viewed(job, request, verdict));
  }
  return viewed;
}

}  // namespace stowage
