#include "client/train/train_options.h"

#include "client/lib/credential_flags.h"

namespace stowage {

void AddOptions(CLI::App& app, TrainOptions* options) {
  const auto add = [&app](const char* group, const char* name, auto& value, const char* type,
                          const char* help) {
    return app.add_option(name, value, help)->type_name(type)->group(group);
  };
  NetworkOptions& network = options->network;
  constexpr const char* kNetwork = "Network";
  add(kNetwork, "--network", options->network_name, "NAME", "what to train")
      ->check(CLI::IsMember(NetworkNames()))
      ->capture_default_str();
  add(kNetwork, "--batch", network.batch, "N", "samples a step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  add(kNetwork, "--image", network.image, "N", "pixels a side, of a network for images")
      ->check(CLI::Range(32, 1 << 14))
      ->capture_default_str();
  add(kNetwork, "--layers", network.layers, "N", "blocks of a transformer")
      ->check(CLI::Range(1, 4'900))
      ->capture_default_str();
  add(kNetwork, "--width", network.width, "N",
      "numbers a token, of a transformer: a multiple of 64")
      ->check(CLI::Range(64, 1 << 16))
      ->check(CLI::Validator(
          [](std::string& text) {
            return std::stoi(text) % 64 == 0 ? "" : "must be a multiple of 64";
          },
          ""))
      ->capture_default_str();
  add(kNetwork, "--sequence", network.sequence, "N", "tokens a sample, of a transformer")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  add(kNetwork, "--vocabulary", network.vocabulary, "N", "tokens there are, of a transformer")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();

  constexpr const char* kTraining = "Training";
  add(kTraining, "--steps", options->steps, "N", "steps that are measured, after two that are not")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  add(kTraining, "--seed", options->seed, "N", "of weights, data and dropout")
      ->capture_default_str();
  app.add_flag("--verify", options->verifies,
               "compare every recomputation with the first run, and name the stage that differs")
      ->group(kTraining);
  app.add_flag("!--no-compare", options->compares,
               "do not train without a schedule and with the best segments, too")
      ->group(kTraining);

  constexpr const char* kDevice = "Device";
  add(kDevice, "--device", options->device, "NAME", "cpu, or cuda:0 where this was built with CUDA")
      ->capture_default_str();
  add(kDevice, "--memory", options->memory, "SIZE",
      "for activations: 4GiB, bytes without a unit, 40%: from the least that any schedule needs "
      "(0%) to storing everything (100%), or all: what the device has left")
      ->capture_default_str();
  add(kDevice, "--device-memory", options->device_memory, "SIZE",
      "of the whole device; default: what it has");
  add(kDevice, "--link", options->link, "RATE",
      "slow copies down to this, both ways, on a cpu: 12GB/s; default: as they are");

  constexpr const char* kSchedule = "Schedule";
  add(kSchedule, "--solver", options->solver, "NAME", "default: auto");
  app.add_flag("--graph", options->graph_mode,
               "measure graph mode, too, and let the schedule choose: neighbouring stages as one, "
               "by TorchScript where a trace trains alike")
      ->group(kSchedule);
  add(kSchedule, "--server", options->server, "ADDRESS", "host:port or unix:PATH of a server")
      ->capture_default_str();
  add(kSchedule, "--patience", options->patience, "DURATION",
      "wait so long for a server, then solve here")
      ->capture_default_str();
  app.add_flag("--local", options->local, "solve here, ask no server")->group(kSchedule);
  add(kSchedule, "--plan-cache", options->plan_cache, "DIR",
      "start from the last schedule that is there, and leave this one for the next time");
  add(kSchedule, "--job", options->job, "NAME", "what the server's operators know this run by");

  AddCredentials(app, &options->credentials);

  constexpr const char* kOutput = "Output";
  add(kOutput, "--trace", options->trace, "FILE",
      "one step, measured and predicted, for Perfetto or chrome://tracing");
  add(kOutput, "--chain-output", options->chain_output, "FILE",
      "the measured chain, for stowage --chain");
  add(kOutput, "--platform-output", options->platform_output, "FILE",
      "the measured platform, for stowage --platform");
}

}  // namespace stowage
