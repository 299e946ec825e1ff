// stowage-train: trains a network under a memory budget and compares that with other trainings. An
// example for training programs: what one needs of Stowage is the Fit in Run().
#include <ATen/Context.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <iterator>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "client/torch/fit.h"
#include "client/torch/profile/plain_step.h"
#include "client/train/interleaved.h"
#include "client/train/networks.h"
#include "client/train/outputs.h"
#include "client/train/segments.h"
#include "client/train/train_options.h"
#include "client/train/training_report.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitError = 1;
constexpr int kExitInfeasible = 2;

// On standard error: what may take more than a second, and notes.
void Tell(const std::string& what) { absl::FPrintF(stderr, "stowage-train: %s\n", what); }

// Sets the steps of the trainings that Stowage's is compared with: all but the last one.
void SetOtherSteps(const FitPlan& plan, std::list<InterleavedTraining>* trainings) {
  InterleavedTraining& plain = trainings->front();
  plain.step = [&network = plain.network()] {
    return PlainStep(network.stages, network.input, network.loss);
  };
  InterleavedTraining& segments = *std::next(trainings->begin());
  const absl::StatusOr<int> count = BestSegments(plan.chain, plan.platform);
  segments.samples.status = count.status();
  segments.step = [&network = segments.network(), count = count.value_or(1)] {
    return SegmentsStep(network, count);
  };
}

// May throw what Fit throws.
absl::Status Run(const TrainOptions& options) {
  RETURN_IF_ERROR(CheckOutputs(options));
  ASSIGN_OR_RETURN(FitOptions fit_options, FitOptionsOf(options));
  fit_options.progress = Tell;
  NetworkOptions network_options = options.network;
  network_options.device = c10::Device(options.device);
  std::list<InterleavedTraining> trainings;
  for (const char* name : {"plain", "segments", "stowage"}) {
    if (!options.compares && !trainings.empty()) trainings.clear();
    at::manual_seed(static_cast<uint64_t>(options.seed));  // all compute the same numbers
    ASSIGN_OR_RETURN(Network network, MakeNetwork(options.network_name, network_options));
    trainings.emplace_back(name, std::move(network));
  }

  InterleavedTraining& planned = trainings.back();
  const Network& network = planned.network();
  Fit fit(network.stages, network.input, network.loss, fit_options);
  absl::PrintF("%s, batch %d: %s\n", options.network_name, options.network.batch, fit.summary());
  planned.step = [&] { return absl::StatusOr<at::Tensor>(fit.step(network.input, network.loss)); };
  if (options.compares) SetOtherSteps(fit.plan(), &trainings);
  RETURN_IF_ERROR(RunInterleaved(
      &trainings, {.rounds = options.steps, .seed = options.seed, .progress = Tell}));

  RETURN_IF_ERROR(planned.samples.status);
  const FitPlan& plan = fit.plan();
  if (plan.commands != nullptr) {
    planned.samples.predicted = plan.commands->prediction;
    planned.samples.host_bytes = plan.commands->host.layout.bytes;
  }
  std::vector<TrainingSamples> rows;
  for (const InterleavedTraining& training : trainings) rows.push_back(training.samples);
  absl::PrintF("%s\n%s", ComparisonText(rows, options.network.batch), fit.report());
  absl::PrintF("%s", PredictionErrorText(planned.samples, plan.budget_bytes));
  ASSIGN_OR_RETURN(const std::string losses, CompareLosses(rows));
  if (!losses.empty()) absl::PrintF("%s\n", losses);
  ASSIGN_OR_RETURN(const std::vector<std::string> notes,
                   WriteOutputs(options, fit_options, network, planned.samples, &fit));
  for (const std::string& note : notes) Tell(note);
  return absl::OkStatus();
}

int Fail(const std::string& message, int code = kExitError) {
  Tell(ValidUtf8(message));
  return code;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Trains a network on random data under a memory budget, and compares steps and memory with\n"
      "training without a schedule and with the best segments of a program's own code.\n"
      "Exit codes: 0 done, 1 error, 2 infeasible.",
      "stowage-train");
  app.set_version_flag("--version", "stowage-train " STOWAGE_VERSION);
  TrainOptions options;
  AddOptions(app, &options);
  try {
    app.parse(argc, argv);
    const absl::Status status = Run(options);
    if (!status.ok()) return Fail(std::string(status.message()));
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return Fail(std::string(error.what()) + "; see stowage-train --help");
  } catch (const c10::OutOfMemoryError& error) {
    return Fail(error.what_without_backtrace(), kExitInfeasible);
  } catch (const c10::Error& error) {
    return Fail(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return Fail(error.what());
  }
  return std::fflush(stdout) == 0 ? kExitOk : Fail("cannot write to standard output");
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) {
  // Line by line, for logs that are read during the run.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  return stowage::Main(argc, argv);
}
