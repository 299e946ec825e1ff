// The command line of stowage-train.
#ifndef STOWAGE_CLIENT_TRAIN_TRAIN_OPTIONS_H_
#define STOWAGE_CLIENT_TRAIN_TRAIN_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "client/lib/rpc/credentials.h"
#include "client/torch/fit.h"
#include "client/train/networks.h"

namespace stowage {

// The values of flags; texts with units are parsed later.
struct TrainOptions {
  std::string network_name = "resnet18";
  NetworkOptions network;
  std::string device = "cpu";
  std::string memory = "all";
  bool offload = false;  // also on a device that shares its memory with the host
  bool graph_mode = false;
  bool save_options = false;
  int steps = 10;
  int seed = 1;
  bool compares = true;   // also trains without a schedule and with segments
  bool verifies = false;  // compares recomputations with first runs

  std::string solver;
  std::vector<std::string> servers = {"127.0.0.1:50051"};
  CredentialFiles credentials;
  bool local = false;
  std::string patience = "2s";
  std::string plan_cache;
  std::string job;

  std::string trace;
  std::string chain_output;
};

void AddOptions(CLI::App& app, TrainOptions* options);

// Reads the files of credentials. Errors name the flag.
absl::StatusOr<FitOptions> FitOptionsOf(const TrainOptions& options);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TRAIN_TRAIN_OPTIONS_H_
