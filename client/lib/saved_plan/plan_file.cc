#include "client/lib/saved_plan/plan_file.h"

#include <cctype>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/lib/saved_plan/plan_reuse.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/request_message.h"
#include "solver/base/file.h"
#include "solver/base/status_macros.h"
#include "solver/model/chain_warnings.h"
#include "solver/model/validate.h"
#include "stowage/v1/plan.pb.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kExtension = ".plan";

fs::path PathOf(const std::string& directory, const SolveRequest& request) {
  return fs::path(directory) / PlanFileName(request);
}

absl::StatusOr<v1::SavedPlan> Read(const fs::path& path) {
  const absl::StatusOr<std::string> bytes = ReadWholeFile(path.string());
  if (absl::IsNotFound(bytes.status())) {
    return absl::NotFoundError(absl::StrCat("there is no ", path.string()));
  }
  if (!bytes.ok()) {
    return absl::DataLossError(absl::StrCat("cannot read ", bytes.status().message()));
  }
  v1::SavedPlan plan;
  if (!plan.ParseFromString(*bytes) || !plan.has_request() || !plan.has_response()) {
    return absl::DataLossError(absl::StrCat(path.string(), " is not a saved plan"));
  }
  return plan;
}

// Of the file of all plans for the request's chain, whatever their budget.
std::string PrefixOf(const SolveRequest& request) {
  constexpr size_t kMaxLetters = 80;
  std::string name;
  for (const char letter : request.chain.name.substr(0, kMaxLetters)) {
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0;
    name.push_back(plain || letter == '_' ? letter : '-');
  }
  return absl::StrCat(name.empty() ? "chain" : name, "-", request.chain.length(), "-");
}

// "24 Nov 2026", in UTC.
std::string DayOf(const fs::path& path) {
  std::error_code error;
  const fs::file_time_type written = fs::last_write_time(path, error);
  if (error) return "an unknown day";
  const auto time = std::chrono::file_clock::to_sys(written);
  return absl::FormatTime(
      "%e %b %Y",
      absl::FromChrono(std::chrono::time_point_cast<std::chrono::system_clock::duration>(time)),
      absl::UTCTimeZone());
}

// The plan that was written last of those for the request's chain within other budgets.
std::optional<fs::path> OtherPlan(const std::string& directory, const SolveRequest& request) {
  const std::string prefix = PrefixOf(request);
  std::optional<fs::path> last;
  fs::file_time_type written;
  std::error_code error;
  for (fs::directory_iterator at(directory, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    int64_t budget = 0;
    absl::string_view rest = name;
    if (!absl::ConsumePrefix(&rest, prefix) || !absl::ConsumeSuffix(&rest, kExtension) ||
        !absl::SimpleAtoi(rest, &budget)) {
      continue;
    }
    const fs::file_time_type time = fs::last_write_time(at->path(), error);
    if (last.has_value() && time <= written) continue;
    last = at->path();
    written = time;
  }
  return last;
}

}  // namespace

// The names only tell a directory's plans apart; LoadPlan() compares the requests themselves.
std::string PlanFileName(const SolveRequest& request) {
  return absl::StrCat(PrefixOf(request), request.platform.memory_bytes, kExtension);
}

absl::Status SavePlan(const std::string& directory, const SolveRequest& request,
                      const SavedPlan& plan) {
  v1::SavedPlan message;
  *message.mutable_request() = ToMessage(request);
  *message.mutable_response() = ToMessage(plan.result, request.platform);
  message.set_solved_locally(plan.solved_locally);
  message.set_solver_version(SolverVersion(plan.result.answer->solver));
  const fs::path path = PathOf(directory, request);
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot write ", directory, ": ", error.message()));
  }
  return ReplaceFile(path.string(), message.SerializeAsString());
}

absl::StatusOr<SavedPlan> LoadPlan(const std::string& directory, const SolveRequest& request) {
  fs::path path = PathOf(directory, request);
  absl::StatusOr<v1::SavedPlan> message = Read(path);
  if (absl::IsNotFound(message.status())) {
    const std::optional<fs::path> other = OtherPlan(directory, request);
    if (!other.has_value()) return message.status();
    path = *other;
    message = Read(path);
    if (!message.ok()) return absl::NotFoundError(message.status().message());
  }
  RETURN_IF_ERROR(message.status());
  std::vector<FieldViolation> violations;
  SolveRequest made_for = FromMessage(message->request(), &violations);
  absl::StatusOr<SolveResult> saved = FromMessage(message->response());
  const absl::StatusOr<Answer> answer =
      violations.empty() && saved.ok()
          ? ReusePlan({std::move(made_for), *saved->answer, message->solver_version()}, request)
          : absl::FailedPreconditionError("is not valid");
  if (!answer.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path.string(), " is of no use: the plan of ",
        absl::StripLeadingAsciiWhitespace(DayOf(path)), " ", answer.status().message()));
  }
  return SavedPlan{{std::make_shared<const Answer>(*answer), std::move(saved->origin),
                    ChainWarnings(request.chain)},
                   message->solved_locally()};
}

}  // namespace stowage
