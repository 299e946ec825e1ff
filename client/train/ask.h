// Where stowage-train gets its schedule, and what it tells the service afterwards. In a build
// without gRPC there is no service: every schedule is solved here.
#ifndef STOWAGE_CLIENT_TRAIN_ASK_H_
#define STOWAGE_CLIENT_TRAIN_ASK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/credentials.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

struct AskOptions {
  std::string server;  // empty: none
  double patience_seconds = 10;
  std::string plan_cache;  // a directory; empty: none
  CredentialFiles credentials = {};
};

struct Found {
  std::optional<Schedule> schedule;  // none: nothing fits
  std::string solver;
  std::string source;                  // "a server", for people
  std::vector<std::string> notes;      // what did not work on the way, a sentence each
  std::optional<int64_t> least_bytes;  // that would do, where nothing fits
};

// Errors: INVALID_ARGUMENT with every violated field; those of a solve in this process.
absl::StatusOr<Found> FindSchedule(const AskOptions& options, const Chain& chain,
                                   const Platform& platform, const std::string& solver);

// Medians of steps, and what was predicted.
struct MeasuredRun {
  double predicted_seconds = 0;
  double measured_seconds = 0;
  int64_t predicted_peak_bytes = 0;
  int64_t measured_peak_bytes = 0;
};

// Errors: UNAVAILABLE and the like; UNIMPLEMENTED without gRPC.
absl::Status Report(const AskOptions& options, const std::string& job, const MeasuredRun& run);

// As `stowage` reads them. Errors: UNAVAILABLE with the path; UNIMPLEMENTED without gRPC.
absl::Status WriteChain(const std::string& path, const Chain& chain);
absl::Status WritePlatform(const std::string& path, const Platform& platform);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TRAIN_ASK_H_
