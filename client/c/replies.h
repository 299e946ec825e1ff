// Events and results of the C interface as JSON. Pure, thread-safe.
#ifndef STOWAGE_CLIENT_C_REPLIES_H_
#define STOWAGE_CLIENT_C_REPLIES_H_

#include <exception>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/service/results.h"
#include "solver/algorithms/kept_operators.h"
#include "solver/export/export.h"
#include "solver/export/targets.h"
#include "solver/json/json_writer.h"
#include "solver/model/explanation.h"
#include "solver/model/platform.h"
#include "solver/model/solver_description.h"
#include "solver/model/validate.h"

namespace stowage {

// {"error":{…}} in one line. Requires: an error.
std::string ErrorEvent(const absl::Status& status,
                       const std::vector<FieldViolation>& violations = {});
// What an exception of the standard library says: RESOURCE_EXHAUSTED without a thread or memory,
// else INTERNAL.
absl::Status ErrorOf(const std::exception& error);
// {`kind`:{…}} in one line.
std::string EventOf(const char* kind, const OrderedJson& value);

OrderedJson ReplyOf(const SolveResult& result, const Platform& platform);  // SolveResponse
OrderedJson ReplyOf(const FrontierResult& result);                         // FrontierResponse
OrderedJson ReplyOf(const ExplainedSimulation& result);                    // SimulateResponse
OrderedJson ReplyOf(const Export& exported);  // ExportedPlan and "full"
OrderedJson ReplyOf(const std::vector<KeptChoice>& ways);
OrderedJson ReplyOf(const SolverDescription& description);
OrderedJson ReplyOf(const Target& target);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_C_REPLIES_H_
