// Shared by the experiments: the device, the networks, and the output of results.
#ifndef STOWAGE_TESTS_GPU_LAB_H_
#define STOWAGE_TESTS_GPU_LAB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/torch/base/torch_device.h"
#include "client/train/networks.h"
#include "tests/gpu/figures/sheet.h"

namespace stowage {

// A network and its size.
struct Model {
  std::string name;  // of NetworkNames()
  NetworkOptions options;
};

// kFull: the papers' sizes. kSmall: for a rehearsal on two cores.
enum class Scale { kFull, kSmall };
std::vector<Model> Models(Scale scale);

struct Lab {
  TorchDevice device;
  std::vector<Model> models;
  int steps = 20;            // measured ones, after Session::kUnmeasured; the median counts
  int64_t memory_limit = 0;  // bytes; LibTorch's limit in the search for the largest batch
  bool coarse = false;       // fewer points of a curve, and a search with less resolution
  std::string folder;        // for all output files
  std::string only;          // the only network, such as "gpt2"; empty: all

  std::string PathOf(absl::string_view file) const;
  // The file name of a table of all networks; with the network's name if there is only one, so that
  // runs of one network each do not overwrite each other's tables.
  std::string NameOf(absl::string_view table) const;
  // Prints the table and the remarks, one line each, and writes them to NAME.md and the table to
  // NAME.csv. Errors: those of writing files.
  absl::Status Publish(const std::string& name, const std::string& title, const Sheet& sheet,
                       const std::vector<std::string>& remarks) const;
};

// The experiments. Each publishes its results. Errors: those of the trainings; INTERNAL from
// Correct() if gradients differ.
absl::Status Correct(Lab* lab);      // gradients under every solver against plain training
absl::Status Predictions(Lab* lab);  // predicted against measured times and peaks
absl::Status Throughput(Lab* lab);   // throughput by peak memory, against other ways to save memory
absl::Status Overlapped(Lab* lab);   // the link, hidden copy time, slowdown of computations
absl::Status LargestBatches(Lab* lab);  // the largest batch

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_LAB_H_
