#include "client/lib/plan_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/request_message.h"
#include "proto/convert/schedule_message.h"
#include "solver/base/status_macros.h"
#include "solver/model/validate.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

// The makespan may be so much more of the time of computing everything once than it was.
constexpr double kMoreOverhead = 0.01;

fs::path PathOf(const std::string& directory, const v1::SolveRequest& request) {
  return fs::path(directory) / PlanFileName(request);
}

// All of a request that must be the same: without times, rates, names and where they come from.
v1::SolveRequest WithoutTimes(v1::SolveRequest request) {
  v1::Chain& chain = *request.mutable_chain();
  chain.clear_name();
  chain.clear_provenance();
  const auto clear = [](v1::Stage* stage) {
    stage->clear_name();
    stage->clear_forward_seconds();
    stage->clear_backward_seconds();
    if (!stage->has_graph()) return;
    stage->mutable_graph()->clear_forward_seconds();
    stage->mutable_graph()->clear_backward_seconds();
  };
  chain.clear_graph_entry_seconds();
  for (v1::Stage& stage : *chain.mutable_stages()) clear(&stage);
  if (chain.has_loss()) clear(chain.mutable_loss());
  v1::Platform& platform = *request.mutable_platform();
  platform.clear_name();
  platform.clear_offload_bytes_per_second();
  platform.clear_prefetch_bytes_per_second();
  platform.clear_transfer_latency_seconds();
  return request;
}

absl::Status CannotWrite(const fs::path& path, int error) {
  return absl::UnavailableError(
      absl::StrCat("cannot write ", path.string(), ": ", std::strerror(error)));
}

// To a file of its own beside `path`, whose name it puts into `fresh`.
absl::Status WriteDurably(const fs::path& path, const std::string& bytes, std::string* fresh) {
  *fresh = absl::StrCat(path.string(), ".XXXXXX");
  const int file = mkostemp(fresh->data(), O_CLOEXEC);
  if (file < 0) return CannotWrite(path, errno);
  (void)fchmod(file, 0644);
  size_t written = 0;
  int error = 0;
  while (written < bytes.size() && error == 0) {
    const ssize_t count = write(file, bytes.data() + written, bytes.size() - written);
    if (count >= 0) {
      written += static_cast<size_t>(count);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && fsync(file) != 0) error = errno;
  if (close(file) != 0 && error == 0) error = errno;
  return error == 0 ? absl::OkStatus() : CannotWrite(path, error);
}

absl::StatusOr<v1::SavedPlan> Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file && errno == ENOENT)
    return absl::NotFoundError(absl::StrCat("there is no ", path.string()));
  if (!file) {
    return absl::DataLossError(
        absl::StrCat("cannot read ", path.string(), ": ", std::strerror(errno)));
  }
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  v1::SavedPlan plan;
  if (!plan.ParseFromString(bytes) || !plan.has_request() || !plan.has_response()) {
    return absl::DataLossError(absl::StrCat(path.string(), " is not a saved plan"));
  }
  return plan;
}

// 0 of a solver that this program does not know.
int VersionOf(const std::string& solver) {
  const SolverInfo* const info = FindSolver(solver);
  return info != nullptr ? info->description.version : 0;
}

}  // namespace

std::string PlanFileName(const v1::SolveRequest& request) {
  constexpr size_t kMostLetters = 80;
  std::string name;
  for (const char letter : request.chain().name().substr(0, kMostLetters)) {
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0;
    name.push_back(plain || letter == '_' ? letter : '-');
  }
  return absl::StrCat(name.empty() ? "chain" : name, "-", request.chain().stages_size(), "-",
                      request.platform().memory_bytes(), ".plan");
}

absl::Status SavePlan(const std::string& directory, v1::SavedPlan plan) {
  const fs::path path = PathOf(directory, plan.request());
  plan.set_solver_version(VersionOf(plan.response().origin().solver()));
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return CannotWrite(directory, error.value());
  // Of two ranks that save at once the later one wins.
  std::string fresh;
  absl::Status status = WriteDurably(path, plan.SerializeAsString(), &fresh);
  if (status.ok()) {
    fs::rename(fresh, path, error);
    if (error) status = CannotWrite(path, error.value());
  }
  if (!status.ok()) fs::remove(fresh, error);
  return status;
}

absl::StatusOr<v1::SavedPlan> LoadPlan(const std::string& directory,
                                       const v1::SolveRequest& request) {
  const fs::path path = PathOf(directory, request);
  ASSIGN_OR_RETURN(v1::SavedPlan plan, Read(path));
  const auto useless = [&path](const std::string& why) {
    return absl::FailedPreconditionError(absl::StrCat(path.string(), " is of no use: ", why));
  };
  if (!google::protobuf::util::MessageDifferencer::Equals(WithoutTimes(plan.request()),
                                                          WithoutTimes(request))) {
    return useless("it is for other sizes, options or another solver");
  }
  if (plan.solver_version() != VersionOf(plan.response().origin().solver())) {
    return useless("it is by another version of its solver");
  }
  std::vector<FieldViolation> violations;
  const Schedule schedule = FromMessage(plan.response().schedule(), &violations);
  const Chain chain = FromMessage(request.chain());
  const Platform platform = FromMessage(request.platform());
  const v1::Outcome outcome = plan.response().outcome();
  if (!violations.empty() || !Violations(chain).empty() || !Violations(platform).empty() ||
      !Violations(schedule).empty() || (outcome != v1::OPTIMAL && outcome != v1::FEASIBLE)) {
    return useless("it is not valid");
  }
  const absl::StatusOr<ExplainedSimulation> result = SimulateAndExplain(chain, platform, schedule);
  if (!result.ok()) return useless(std::string(result.status().message()));
  if (!result->simulation.feasible()) return useless("its schedule does not fit");
  const v1::SimulateResponse simulated =
      ToMessage(result->simulation, result->timeline, result->explanation);
  if (simulated.prediction().overhead() > plan.response().prediction().overhead() + kMoreOverhead) {
    return useless("with these times its schedule loses more than it did");
  }
  v1::SolveResponse& response = *plan.mutable_response();
  if (!google::protobuf::util::MessageDifferencer::Equals(plan.request(), request)) {
    // The best for some times need not be the best for others.
    if (response.outcome() == v1::OPTIMAL && simulated.prediction().gap() > 0) {
      response.set_outcome(v1::FEASIBLE);
      response.set_limit(v1::ROUNDING);
    }
    response.clear_rounding_loss();
  }
  *response.mutable_prediction() = simulated.prediction();
  v1::Explanation explanation = simulated.explanation();
  *explanation.mutable_notes() = response.explanation().notes();
  *response.mutable_explanation() = std::move(explanation);
  *response.mutable_platform() = request.platform();
  *plan.mutable_request() = request;
  return plan;
}

}  // namespace stowage
