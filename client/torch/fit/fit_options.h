// What a training program may say to Fit (fit.h).
#ifndef STOWAGE_CLIENT_TORCH_FIT_FIT_OPTIONS_H_
#define STOWAGE_CLIENT_TORCH_FIT_FIT_OPTIONS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/lib/rpc/credentials.h"

namespace stowage {

struct FitOptions {
  // Of activations, their gradients and what operations need meanwhile: "4GiB", "1000" (bytes), or
  // "40%" of solver/README.md, "The range of budgets", with `save_options` the same bytes as
  // without. Weights, their gradients and the optimizer's state are beside it. "all": what these
  // leave of the device.
  std::string memory = "all";
  // With "all": the optimizer's numbers for each trained number, 1 for momentum, 2 for Adam.
  int optimizer_copies = 2;
  std::string solver = "auto";
  // Each host:port or unix:PATH; empty: solve in this process, as builds without gRPC always do.
  std::vector<std::string> servers = {};
  double patience_seconds = 2;  // for the servers; then this process solves
  Credentials credentials = {};
  std::string plan_cache = {};  // a directory of plans for the next start; empty: none
  // Whether values may wait in host memory. Unset: if the device has a memory of its own.
  std::optional<bool> offload = std::nullopt;
  bool graph_mode = false;  // also measures graph mode (graph_mode.h) and lets the schedule choose
  // Where plain training does not fit, also looks for further ways to save each stage
  // (save_options.h), and lets the schedule choose: often faster than recomputing whole stages, but
  // the plan takes longer. An error with graph_mode.
  bool save_options = false;
  // Compares every recomputation of a plan's first two steps with the first run: a stage that
  // differs fails by name. Takes longer than the steps themselves.
  bool verify = false;
  // Told what is being done, where that may take more than a second. May be empty.
  std::function<void(const std::string& what)> progress = nullptr;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_FIT_FIT_OPTIONS_H_
