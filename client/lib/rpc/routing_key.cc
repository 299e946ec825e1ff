#include "client/lib/rpc/routing_key.h"

#include "absl/strings/str_cat.h"
#include "solver/base/fnv1a.h"

namespace stowage {
namespace {

// Without `provenance` there is no map, whose order in the bytes would vary.
void ClearNames(v1::Chain& chain) {
  chain.clear_name();
  chain.clear_provenance();
  for (v1::Stage& stage : *chain.mutable_stages()) stage.clear_name();
  if (chain.has_loss()) chain.mutable_loss()->clear_name();
}

template <typename Request>
std::string KeyOf(Request& request) {
  if (request.has_chain()) ClearNames(*request.mutable_chain());
  if (request.has_platform()) request.mutable_platform()->clear_name();
  if (request.solver() == "auto") request.clear_solver();  // what an empty one means
  if (request.has_options()) {
    request.mutable_options()->clear_use_cache();
    request.mutable_options()->clear_time_budget_seconds();
  }
  return absl::StrCat(absl::Hex(Fnv1a(request.SerializeAsString()), absl::kZeroPad16));
}

}  // namespace

std::string RoutingKey(v1::SolveRequest request) { return KeyOf(request); }

std::string RoutingKey(v1::FrontierRequest request) { return KeyOf(request); }

}  // namespace stowage
