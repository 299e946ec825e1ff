// Where stowage-train gets its schedule and reports what it measured. Two sources implement it:
// schedule_service_grpc.cc calls a server through the planner; schedule_service_local.cc, in builds
// without gRPC, solves every schedule in this process.
#ifndef STOWAGE_CLIENT_TRAIN_SCHEDULE_SERVICE_H_
#define STOWAGE_CLIENT_TRAIN_SCHEDULE_SERVICE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/credentials.h"
#include "client/lib/planner.h"
#include "client/lib/scheduler.h"
#include "proto/service/execution_report.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

struct ServiceOptions {
  std::vector<std::string> servers;  // each host:port or unix:PATH; empty: solve in this process
  double patience_seconds = 10;      // as PlannerOptions::patience_seconds
  std::string plan_cache;            // directory of plan files; empty: none
  CredentialFiles credentials = {};
};

// INVALID_ARGUMENT names the first address that is none. Without gRPC none is read.
absl::Status CheckServers(const std::vector<std::string>& servers);

// Errors: those of FindPlan() and ReadCredentials(). Without gRPC those of LocalScheduler.
absl::StatusOr<PlannedAnswer> FindSchedule(const ServiceOptions& options, const Chain& chain,
                                           const Platform& platform, const std::string& solver);

// Waits at most 2 s for the servers. Errors: those of RemoteScheduler; UNIMPLEMENTED without gRPC.
absl::Status ReportExecution(const ServiceOptions& options, const ExecutionReport& report);

// In the JSON format that `stowage` reads. Errors: UNAVAILABLE with the path; UNIMPLEMENTED without
// gRPC, since protobuf writes the JSON.
absl::Status WriteChain(const std::string& path, const Chain& chain);
absl::Status WritePlatform(const std::string& path, const Platform& platform);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TRAIN_SCHEDULE_SERVICE_H_
