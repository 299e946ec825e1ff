#include "client/train/train_options.h"

#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "client/lib/credential_flags.h"
#include "solver/base/address.h"
#include "solver/base/prefixed.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

// As CLI11's validators: what is wrong; empty: nothing.
std::string DeviceProblem(const std::string& name) {
  try {
    (void)c10::Device(name);
    return "";
  } catch (const c10::Error&) {
    return absl::StrCat("'", name, "' is no device; write cpu or cuda:0");
  }
}

// Adds the options of one group of the help text.
class Group {
 public:
  Group(CLI::App* app, const char* name) : app_(*app), name_(name) {}

  template <typename Value>
  CLI::Option* Add(const char* flag, Value& value, const char* type, const char* help) const {
    return app_.add_option(flag, value, help)->type_name(type)->group(name_);
  }
  void AddFlag(const char* flag, bool& value, const char* help) const {
    app_.add_flag(flag, value, help)->group(name_);
  }

 private:
  CLI::App& app_;
  const char* const name_;
};

void AddNetworkOptions(CLI::App* app, TrainOptions* options) {
  const Group group(app, "Network");
  NetworkOptions& network = options->network;
  group.Add("--network", options->network_name, "NAME", "the network to train")
      ->check(CLI::IsMember(NetworkNames()))
      ->capture_default_str();
  group.Add("--batch", network.batch, "N", "samples per step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  group.Add("--image", network.image, "N", "pixels per side, of a network for images")
      ->check(CLI::Range(32, 1 << 14))
      ->capture_default_str();
  group.Add("--layers", network.layers, "N", "blocks of a transformer")
      ->check(CLI::Range(1, 4'900))
      ->capture_default_str();
  group.Add("--width", network.width, "N", "numbers per token of a transformer: a multiple of 64")
      ->check(CLI::Range(64, 1 << 16))
      // After the range check, which has refused what is not a number.
      ->check(CLI::Validator(
          [](std::string& text) {
            return std::stoi(text) % 64 == 0 ? "" : "must be a multiple of 64";
          },
          ""))
      ->capture_default_str();
  group.Add("--sequence", network.sequence, "N", "tokens per sample of a transformer")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  group.Add("--vocabulary", network.vocabulary, "N", "different tokens of a transformer")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
}

void AddTrainingOptions(CLI::App* app, TrainOptions* options) {
  const Group group(app, "Training");
  group.Add("--steps", options->steps, "N", "measured steps, after two that are not measured")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  group.Add("--seed", options->seed, "N", "of weights, data and dropout")->capture_default_str();
  group.AddFlag("--verify", options->verifies,
                "in the steps that are not measured, compare every recomputation with the first "
                "run, and name the stage that differs");
  group.AddFlag("!--no-compare", options->compares,
                "do not also train without a schedule and with the best segments");
}

void AddDeviceOptions(CLI::App* app, TrainOptions* options) {
  const Group group(app, "Device");
  group.Add("--device", options->device, "NAME", "cpu, or cuda:0 if built with CUDA")
      ->check(CLI::Validator(DeviceProblem, ""))
      ->capture_default_str();
  group
      .Add("--memory", options->memory, "SIZE",
           "for activations: bytes, or with a unit as in 4GiB; 40%: of the range from the memory "
           "floor (0%) to storing everything (100%); all: what the device has left")
      ->capture_default_str();
  group.AddFlag("--offload", options->offload,
                "let values wait in host memory on a cpu as well, which saves none there");
}

void AddScheduleOptions(CLI::App* app, TrainOptions* options) {
  const Group group(app, "Schedule");
  group.Add("--solver", options->solver, "NAME", "default: auto");
  group.AddFlag("--graph", options->graph_mode,
                "also measure graph mode, in which adjacent stages run as one TorchScript trace, "
                "and let the schedule choose");
  group.AddFlag("--save-options", options->save_options,
                "also look for further ways to save each stage, of which a part is then rerun in "
                "its backward, and let the schedule choose");
  group
      .Add("--server", options->servers, "ADDRESS",
           "host:port or unix:PATH of a server, or of several, separated by commas: the next one "
           "is asked where one does not answer")
      ->delimiter(',')
      ->allow_extra_args(false)  // one value a flag, which may be repeated
      ->default_str(options->servers.front());
  group
      .Add("--patience", options->patience, "DURATION",
           "how long to wait for the servers before solving in this process")
      ->capture_default_str();
  group.AddFlag("--local", options->local, "solve in this process, without a server");
  group.Add("--plan-cache", options->plan_cache, "DIR",
            "use the last run's schedule in this directory, and save this run's");
  group.Add("--job", options->job, "NAME", "this run's name in the server's logs");
}

void AddOutputOptions(CLI::App* app, TrainOptions* options) {
  const Group group(app, "Output");
  group.Add("--trace", options->trace, "FILE",
            "write one step, measured and predicted, for Perfetto or chrome://tracing");
  group.Add("--chain-output", options->chain_output, "FILE",
            "write the measured chain, for stowage --chain");
}

}  // namespace

void AddOptions(CLI::App& app, TrainOptions* options) {
  AddNetworkOptions(&app, options);
  AddTrainingOptions(&app, options);
  AddDeviceOptions(&app, options);
  AddScheduleOptions(&app, options);
  AddCredentials(app, &options->credentials);
  AddOutputOptions(&app, options);
}

absl::StatusOr<FitOptions> FitOptionsOf(const TrainOptions& options) {
  FitOptions fit;
  fit.memory = options.memory;
  fit.optimizer_copies = 1;  // momentum
  fit.solver = options.solver;
  if (!options.local) fit.servers = options.servers;
  for (const std::string& server : fit.servers) {
    RETURN_IF_ERROR(Prefixed("--server", CheckAddress(server)));
  }
  ASSIGN_OR_RETURN(fit.patience_seconds, Prefixed("--patience", ParseSeconds(options.patience)));
  ASSIGN_OR_RETURN(fit.credentials, ReadCredentials(options.credentials));
  fit.plan_cache = options.plan_cache;
  if (options.offload) fit.offload = true;
  fit.graph_mode = options.graph_mode;
  fit.save_options = options.save_options;
  fit.verify = options.verifies;
  return fit;
}

}  // namespace stowage
