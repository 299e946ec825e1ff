// What the calls of the service return. Source: server/README.md, "RPCs".
#ifndef STOWAGE_PROTO_SERVICE_RESULTS_H_
#define STOWAGE_PROTO_SERVICE_RESULTS_H_

#include <memory>
#include <vector>

#include "proto/service/origin.h"
#include "solver/model/answer.h"
#include "solver/model/chain_warnings.h"

namespace stowage {

struct Export;  // solver/export/export.h

// What a Solve returns. The answer may be shared with a cache and with other callers.
struct SolveResult {
  std::shared_ptr<const Answer> answer;  // not null
  Origin origin;
  // Of the caller's own chain: names count, which are no part of a shared answer.
  std::vector<ChainWarning> warnings = {};
  std::shared_ptr<const Export> exported = {};  // null where none was asked for
};

// What a Frontier returns.
struct FrontierResult {
  Frontier frontier;
  Origin origin;
};

}  // namespace stowage

#endif  // STOWAGE_PROTO_SERVICE_RESULTS_H_
