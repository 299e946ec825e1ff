// What the experiments share: the device, the networks, and where results go.
#ifndef STOWAGE_TESTS_GPU_LAB_H_
#define STOWAGE_TESTS_GPU_LAB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/train/networks.h"
#include "client/train/train_device.h"
#include "tests/gpu/figures/sheet.h"

namespace stowage {

struct Model {
  std::string name;  // of NetworkNames()
  NetworkOptions options;
};

// Full: as the papers train them. Small: for two cores, to rehearse.
enum class Scale { kFull, kSmall };
std::vector<Model> Models(Scale scale);

struct Lab {
  TrainDevice device;
  std::vector<Model> models;
  int steps = 20;            // of which a median is taken, after Session::kUnmeasured
  int64_t memory_limit = 0;  // bytes that LibTorch may take where batches are searched for
  std::string folder;        // of all files
  std::string only;          // "gpt2" where that is the only network

  std::string PathOf(absl::string_view file) const;
  // Of a table of all networks: with the network's name where there is but one of them, so that
  // networks may be visited one at a time.
  std::string NameOf(absl::string_view table) const;
  // Prints the table and the remarks, a line each, and leaves them in NAME.md and the table in
  // NAME.csv. Errors: those of files.
  absl::Status Publish(const std::string& name, const std::string& title, const Sheet& sheet,
                       const std::vector<std::string>& remarks) const;
};

// The experiments, by the names under which they are asked for; each publishes what it finds.
// Errors: what went wrong; INTERNAL where training came to other gradients.
absl::Status Correct(Lab* lab);     // under every solver the gradients of plain training
absl::Status Honest(Lab* lab);      // predicted against measured
absl::Status Better(Lab* lab);      // throughput against peak memory, beside other ways
absl::Status Overlapped(Lab* lab);  // copies hidden, the link, what computing loses to copies
absl::Status Bigger(Lab* lab);      // the largest batch

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_LAB_H_
