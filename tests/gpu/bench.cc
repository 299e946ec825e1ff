#include "tests/gpu/bench.h"

#include <ATen/Context.h>

#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/torch/base/torch_guarded.h"
#include "client/torch/profile/link_profiler.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/validate.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

constexpr int64_t kUnlimited = int64_t{1} << 50;

}  // namespace

Bench::Bench(const Model& model, TorchDevice* device, const BenchOptions& options)
    : model_(model),
      device_(*device),
      options_(options),
      meter_(MemoryOf(device->torch)),
      helpers_(static_cast<int>(std::thread::hardware_concurrency())) {}

absl::StatusOr<std::unique_ptr<Bench>> Bench::Open(const Model& model, TorchDevice* device,
                                                   const BenchOptions& options) {
  std::unique_ptr<Bench> bench(new Bench(model, device, options));
  RETURN_IF_ERROR(TorchGuarded([&bench] { return bench->CreateSession(); }));
  return bench;
}

absl::Status Bench::CreateSession() {
  at::manual_seed(kSeed);
  NetworkOptions options = model_.options;
  options.device = device_.torch;
  ASSIGN_OR_RETURN(Network network, MakeNetwork(model_.name, options));
  session_.emplace(std::move(network), &device_, &meter_,
                   SessionOptions{.steps = options_.steps, .seed = kSeed});
  return absl::OkStatus();
}

absl::Status Bench::Profile() {
  const Network& network = session_->network();
  TorchStages stages(network.stages,
                     {.device = device_.torch, .granularity = meter_.Granularity()});
  stages.Feed(network.input.clone(), network.loss);
  ASSIGN_OR_RETURN(chain_, ProfileChain(&stages, device_.agent.get(), &meter_, options_.profile));
  chain_.name = absl::StrCat(model_.name, ", batch ", model_.options.batch);
  ASSIGN_OR_RETURN(platform_, ProfileLink(device_.agent.get()));
  platform_.memory_bytes = kUnlimited;
  return absl::OkStatus();
}

int64_t Bench::BudgetOf(double share) const {
  const int64_t low = FloorOfMemory(chain_).bytes;
  return low + static_cast<int64_t>(share * static_cast<double>(StoreAllPeakBytes(chain_) - low));
}

double Bench::SamplesPerSecondOf(const TrainingMeasurement& measured) const {
  return model_.options.batch / measured.step_seconds;
}

absl::StatusOr<std::optional<Solved>> Bench::Solve(const std::string& solver,
                                                   int64_t memory_bytes) {
  SolveRequest request{chain_, platform_, solver, {}};
  request.platform.memory_bytes = memory_bytes;
  RETURN_IF_ERROR(ViolationsStatus(RequestViolations(request)));
  SolveContext context;
  context.threads = &helpers_;
  ASSIGN_OR_RETURN(Answer answer, AnswerRequest(request, context));
  if (answer.outcome == Outcome::kInfeasible) return std::optional<Solved>();
  return Solved{std::move(answer.schedule), std::move(answer.solver)};
}

absl::StatusOr<FrameworkPlan> Bench::PlanOf(const Schedule& schedule) const {
  return MakeFrameworkPlan(chain_, platform_, schedule);
}

absl::StatusOr<Trained> Bench::TrainUnder(const Schedule& schedule) {
  ASSIGN_OR_RETURN(const FrameworkPlan plan, PlanOf(schedule));
  ASSIGN_OR_RETURN(TrainingMeasurement measured, session_->TrainUnder(plan));
  return Trained{plan.prediction, std::move(measured)};
}

std::string ExtraWorkOf(const Schedule& schedule) {
  int offloads = 0;
  int recomputations = 0;
  std::set<int> seen;  // stages whose first forward has come
  for (const Operation& operation : schedule.operations) {
    if (operation.kind == OperationKind::kOffload) ++offloads;
    if (IsForward(operation.kind) && !seen.insert(operation.stage).second) {
      ++recomputations;
    }
  }
  return absl::StrCat(offloads, " offloaded, ", recomputations, " recomputed");
}

}  // namespace stowage
