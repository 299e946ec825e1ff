// Jobs and the devices that they fit, for the page of `stowage admit --html`.
#ifndef STOWAGE_CLIENT_CLI_ADMIT_PAGE_H_
#define STOWAGE_CLIENT_CLI_ADMIT_PAGE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/model/request.h"
#include "solver/model/verdict.h"
#include "stowage/v1/model.pb.h"
#include "stowage/v1/view.pb.h"

namespace stowage {

// `path` is the job's file, and `job` what it has; the verdicts are those of the request. Simulates
// the plans. Errors: those of Simulate().
absl::StatusOr<v1::ViewedJob> ViewedVerdicts(const std::string& path, const v1::Job& job,
                                             const AdmitRequest& request,
                                             const std::vector<Verdict>& verdicts);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_ADMIT_PAGE_H_
