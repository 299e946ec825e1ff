// stowage-gpu-experiment: runs the experiments of RESULTS.md on a device and prints their tables.
// tests/gpu/run.sh builds and runs it.
#include <torch/version.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/torch/base/memory_meter.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "tests/gpu/lab.h"

namespace stowage {
namespace {

struct Experiment {
  const char* name;
  const char* summary;
  absl::Status (*run)(Lab* lab);
};
constexpr Experiment kExperiments[] = {
    {"correct", "gradients under every solver against plain training", Correct},
    {"predictions", "step times and peaks, predicted against measured", Predictions},
    {"throughput", "throughput by peak memory, against other ways to save memory", Throughput},
    {"overlapped", "the link, hidden copy time, slowdown of computations", Overlapped},
    {"largest_batch", "the largest batch", LargestBatches},
};

struct Options {
  std::string device = "cuda:0";
  std::string link;
  std::string network;
  std::string memory_limit = "16GiB";
  std::string output = ".";
  int steps = 20;
  bool small = false;
  bool coarse = false;
};

absl::StatusOr<Lab> Open(const Options& options) {
  LinkSpeed link;
  if (!options.link.empty()) {
    ASSIGN_OR_RETURN(link.offload_bytes_per_second, ParseBytesPerSecond(options.link));
    link.prefetch_bytes_per_second = link.offload_bytes_per_second;
  }
  Lab lab;
  ASSIGN_OR_RETURN(lab.device, OpenDevice(options.device, link));
  MemoryOf(lab.device.torch);  // installs the meter before the first allocation
  ASSIGN_OR_RETURN(lab.memory_limit, ParseBytes(options.memory_limit));
  lab.models = Models(options.small ? Scale::kSmall : Scale::kFull);
  if (!options.network.empty()) {
    lab.only = options.network;
    lab.models.erase(
        std::remove_if(lab.models.begin(), lab.models.end(),
                       [&](const Model& model) { return model.name != options.network; }),
        lab.models.end());
  }
  lab.steps = options.steps;
  lab.coarse = options.coarse;
  lab.folder = options.output;
  return lab;
}

void AddOptions(CLI::App* app, Options* options) {
  app->add_option("--device", options->device, "LibTorch's name")->capture_default_str();
  app->add_option(
      "--link", options->link,
      "limit copies in both directions on a cpu to this rate, as in 2GB/s; default: no limit");
  std::vector<std::string> networks;
  for (const Model& model : Models(Scale::kFull)) networks.push_back(model.name);
  app->add_option("--network", options->network, "the only network; default: all")
      ->check(CLI::IsMember(networks));
  app->add_flag("--small", options->small, "small networks and batches, for a rehearsal on a cpu");
  app->add_flag("--coarse", options->coarse,
                "fewer points of each curve, and a coarser search for the largest batch: for a GPU "
                "that is lent for minutes");
  app->add_option("--steps", options->steps, "measured steps; medians count")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app->add_option("--memory-limit", options->memory_limit,
                  "LibTorch's limit in the search for the largest batch")
      ->capture_default_str();
  app->add_option("--output", options->output, "folder for tables, curves, plots and traces")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
}

int Fail(const std::string& message) {
  std::fprintf(stderr, "stowage-gpu-experiment: %s\n", message.c_str());
  return 1;
}

int Main(int argc, char** argv) {
  CLI::App app("Measures Stowage on a device, one experiment at a time.", "stowage-gpu-experiment");
  app.require_subcommand(1);
  app.set_version_flag("--version", absl::StrCat("LibTorch ", TORCH_VERSION_MAJOR, ".",
                                                 TORCH_VERSION_MINOR, ".", TORCH_VERSION_PATCH));
  Options options;
  const Experiment* chosen = nullptr;
  for (const Experiment& experiment : kExperiments) {
    CLI::App* const command = app.add_subcommand(experiment.name, experiment.summary);
    AddOptions(command, &options);
    command->callback([&chosen, &experiment] { chosen = &experiment; });
  }
  CLI11_PARSE(app, argc, argv);
  absl::StatusOr<Lab> lab = Open(options);
  if (!lab.ok()) return Fail(std::string(lab.status().message()));
  const absl::Status status = chosen->run(&*lab);
  return status.ok() ? 0 : Fail(std::string(status.message()));
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF,
               BUFSIZ);  // line by line, for logs that are read during the run
  try {
    return stowage::Main(argc, argv);
  } catch (const std::exception& error) {  // from LibTorch, outside of any stage
    std::fprintf(stderr, "stowage-gpu-experiment: %s\n", error.what());
    return 1;
  }
}
