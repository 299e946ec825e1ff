// stowage admit: which devices a job fits, with or without a plan.
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "client/cli/admit_page.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/html_page.h"
#include "client/cli/solve_flags.h"
#include "client/lib/scheduler.h"
#include "client/text/table.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "proto/convert/request_message.h"
#include "proto/convert/schedule_message.h"
#include "proto/convert/verdict_message.h"
#include "solver/base/file.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

struct AdmitArguments {
  SolveFlags solve;
  std::vector<std::string> jobs;
  std::vector<std::string> memory;
  std::string devices;
  std::string output;
  std::string html;
  std::string format = "text";
};

// Those of --memory, or of the file.
absl::StatusOr<v1::AdmitRequest> ReadDevices(const AdmitArguments& arguments) {
  v1::AdmitRequest message;
  if (!arguments.devices.empty()) {
    ASSIGN_OR_RETURN(const std::string json, ReadInput(arguments.devices));
    RETURN_IF_ERROR(Prefixed(arguments.devices, FromJson(json, "request", &message)));
    if (!message.has_job() && message.solver().empty() && !message.has_options()) return message;
    return absl::InvalidArgumentError(absl::StrCat("--devices: ", arguments.devices,
                                                   " has more than devices; leave the rest out"));
  }
  if (arguments.memory.empty()) {
    return absl::InvalidArgumentError(
        "--memory: is missing; give all that the job may take of a device, as in --memory 80GiB, "
        "or --devices FILE");
  }
  for (const std::string& memory : arguments.memory) {
    ASSIGN_OR_RETURN(const int64_t bytes, Prefixed("--memory", ParseBytes(memory)));
    message.add_devices()->mutable_platform()->set_memory_bytes(bytes);
  }
  return message;
}

// One of the jobs, on all devices.
struct Question {
  std::string path;
  v1::Job job;  // as in the file
  AdmitRequest request;
};

absl::StatusOr<Question> ReadQuestion(const AdmitArguments& arguments, const std::string& path,
                                      v1::AdmitRequest devices) {
  ASSIGN_OR_RETURN(const std::string json, ReadInput(path));
  Question question;
  question.path = path;
  RETURN_IF_ERROR(Prefixed(path, FromJson(json, "job", &question.job)));
  *devices.mutable_job() = question.job;
  std::vector<FieldViolation> violations;
  question.request = FromMessage(devices, &violations);
  question.request.solver = arguments.solve.solver;
  ASSIGN_OR_RETURN(question.request.options, ReadSolveOptions(arguments.solve));
  Append(RequestViolations(question.request), &violations);
  const absl::Status valid = CheckRequest(violations);
  RETURN_IF_ERROR(arguments.jobs.size() > 1 ? Prefixed(path, valid) : valid);
  return question;
}

absl::Status CheckJobs(const AdmitArguments& arguments) {
  const auto from_input = std::ranges::count(arguments.jobs, "-");
  if (from_input > (arguments.devices == "-" ? 0 : 1)) {
    return absl::InvalidArgumentError(arguments.devices == "-"
                                          ? "--devices: standard input is already read by --job"
                                          : "--job: standard input is read twice");
  }
  if (arguments.jobs.size() > 1 && (arguments.format != "text" || !arguments.output.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat(arguments.output.empty() ? "--format" : "--output",
                     ": is for one job; leave it out, or give one --job"));
  }
  return absl::OkStatus();
}

// All are read before the first is asked for.
absl::StatusOr<std::vector<Question>> ReadQuestions(const AdmitArguments& arguments) {
  RETURN_IF_ERROR(CheckJobs(arguments));
  ASSIGN_OR_RETURN(const v1::AdmitRequest devices, ReadDevices(arguments));
  std::vector<Question> questions;
  for (const std::string& path : arguments.jobs) {
    ASSIGN_OR_RETURN(Question question, ReadQuestion(arguments, path, devices));
    questions.push_back(std::move(question));
  }
  return questions;
}

std::string NameOf(const AdmitRequest& request, const Verdict& verdict) {
  const std::string& name = request.devices[verdict.device].platform.name;
  return name.empty() ? absl::StrCat("device ", verdict.device + 1) : Printable(name);
}

std::string VerdictText(const TrainingJob& job, const Verdict& verdict) {
  const absl::string_view when = verdict.peak_outside_layers ? ", outside of the layers" : "";
  switch (verdict.fit) {
    case Verdict::Fit::kFits:
      return absl::StrCat("fits: takes ", FormatBytes(verdict.peak_bytes), when);
    case Verdict::Fit::kFitsWithPlan: {
      const Prediction& prediction = verdict.plan->prediction;
      std::string text = absl::StrFormat(
          "fits with a plan: takes %s%s, %+.1f %%, %s a step", FormatBytes(verdict.peak_bytes),
          when, 100 * prediction.overhead, FormatSeconds(prediction.makespan_seconds));
      if (prediction.peak_host_bytes == 0) return text;
      return absl::StrCat(text, ", with ", FormatBytes(prediction.peak_host_bytes), " on the host",
                          job.in_flight > 1 ? " for each micro-batch" : "");
    }
    case Verdict::Fit::kDoesNotFit:
      break;
  }
  std::string text = absl::StrCat("does not fit: takes ", FormatBytes(verdict.peak_bytes),
                                  " with all layers kept");
  if (!verdict.minimum_memory_bytes.has_value()) return text;
  return absl::StrCat(text, ", ", FormatBytes(*verdict.minimum_memory_bytes), " at least",
                      verdict.peak_outside_layers ? when : "");
}

std::string Text(const AdmitRequest& request, const std::vector<Verdict>& verdicts) {
  Table table(
      {Table::Align::kLeft, Table::Align::kRight, Table::Align::kRight, Table::Align::kLeft});
  for (const Verdict& verdict : verdicts) {
    const JobDevice& device = request.devices[verdict.device];
    table.Add({NameOf(request, verdict), FormatBytes(device.platform.memory_bytes),
               device.price > 0 ? absl::StrFormat("%g", device.price) : "",
               VerdictText(request.job, verdict)});
  }
  return table.ToString(0);
}

// The first that the job fits.
absl::StatusOr<int> ExitCodeOf(const AdmitArguments& arguments,
                               const std::vector<Verdict>& verdicts) {
  const auto fits = std::ranges::find_if(
      verdicts, [](const Verdict& verdict) { return verdict.fit != Verdict::Fit::kDoesNotFit; });
  if (fits == verdicts.end()) return kExitInfeasible;
  if (fits->fit == Verdict::Fit::kFits) return kExitOk;
  if (!arguments.output.empty()) {
    const std::string json = ToJson(ToMessage(fits->plan->schedule));
    RETURN_IF_ERROR(Prefixed("--output", WriteFile(arguments.output, json)));
  }
  return kExitFitsWithPlan;
}

// 2 before 3 before 0: scripts submit all jobs, or none.
int Worse(int code, int other) {
  constexpr std::array kFromBest = {kExitOk, kExitFitsWithPlan, kExitInfeasible};
  return std::max(code, other, [&](int a, int b) {
    return std::ranges::find(kFromBest, a) < std::ranges::find(kFromBest, b);
  });
}

// Tells apart what scripts may ignore, as a server that is down, from what is wrong.
absl::StatusOr<int> NoAnswer(const absl::Status& status) {
  if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status) &&
      !absl::IsResourceExhausted(status)) {
    return status;
  }
  std::fprintf(stderr, "stowage: %s\n", Printable(status.message()).c_str());
  return kExitNoAnswer;
}

absl::StatusOr<int> RunAdmit(const AdmitArguments& arguments) {
  ASSIGN_OR_RETURN(const std::vector<Question> questions, ReadQuestions(arguments));
  ASSIGN_OR_RETURN(const std::unique_ptr<Scheduler> scheduler, MakeScheduler(arguments.solve));
  v1::View view;
  int code = kExitOk;
  for (const Question& question : questions) {
    const absl::StatusOr<std::vector<Verdict>> verdicts = scheduler->Admit(question.request);
    if (!verdicts.ok()) {
      const absl::Status status = InFlags(verdicts.status(), SolverOf(arguments.solve));
      return NoAnswer(questions.size() > 1 ? Prefixed(question.path, status) : status);
    }
    std::string text = arguments.format == "json" ? ToJson(ToMessage(*verdicts))
                                                  : Text(question.request, *verdicts);
    if (questions.size() > 1) text = absl::StrCat(Printable(question.path), ":\n", text);
    std::fwrite(text.data(), 1, text.size(), stdout);
    ASSIGN_OR_RETURN(const int own, ExitCodeOf(arguments, *verdicts));
    code = Worse(code, own);
    if (arguments.html.empty()) continue;
    ASSIGN_OR_RETURN(*view.add_jobs(),
                     ViewedVerdicts(question.path, question.job, question.request, *verdicts));
  }
  RETURN_IF_ERROR(WriteHtml(arguments.html, view));
  return code;
}

}  // namespace

void AddAdmitCommand(CLI::App& app, Subcommand* chosen) {
  auto arguments = std::make_shared<AdmitArguments>();
  CLI::App& command = *app.add_subcommand("admit", "say which devices a job fits");
  command.footer(
      "Exit codes, of the first that it fits: 0 as it is, 3 with a plan; 2 none, 1 error, 4 the "
      "server does not answer. Of several jobs the worst.");
  command
      .add_option("--job", arguments->jobs,
                  "the job, as JSON; - for standard input; may be repeated, as for several batches")
      ->required()
      ->allow_extra_args(false)
      ->type_name("FILE");
  CLI::Option* const memory =
      command
          .add_option("--memory", arguments->memory,
                      "all that the job may take of a device, as in 80GiB; of several by commas")
          ->delimiter(',')
          ->type_name("SIZES")
          ->group("Devices");
  command
      .add_option("--devices", arguments->devices,
                  "JSON with links and prices: {\"devices\": [{\"platform\": {\"memory_bytes\": "
                  "…}, \"price\": 2.5}]}")
      ->type_name("FILE")
      ->group("Devices")
      ->excludes(memory);
  AddSolveFlags(command, &arguments->solve);
  AddTimeBudgetFlags(command, &arguments->solve);
  command
      .add_option("--output", arguments->output,
                  "file to write the schedule to, where the first that it fits takes one")
      ->type_name("FILE")
      ->group("Output");
  AddHtml(command, &arguments->html);
  AddFormat(command, &arguments->format);
  command.callback([arguments, chosen] { *chosen = [arguments] { return RunAdmit(*arguments); }; });
}

}  // namespace stowage
