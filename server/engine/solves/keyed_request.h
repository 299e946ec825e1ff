// A request as the engine keeps it.
#ifndef STOWAGE_SERVER_ENGINE_SOLVES_KEYED_REQUEST_H_
#define STOWAGE_SERVER_ENGINE_SOLVES_KEYED_REQUEST_H_

#include <memory>

#include "server/cache/cache_keys.h"
#include "server/engine/limits/request_bytes.h"
#include "solver/model/chain_units.h"
#include "solver/model/instance.h"
#include "solver/model/request.h"

namespace stowage {

// A request with its keys, the instance that they were made of, and its share of the memory of all
// requests, which is on the account of a client that waits. Immutable but for that, shared.
struct KeyedRequest {
  SolveRequest request;
  std::shared_ptr<const Instance> rounded;
  CacheKeys keys;
  RequestBytes::Hold held = {};

  const ChainUnits& units() const { return rounded->units(); }  // of the request's chain
};
using KeyedRequestPtr = std::shared_ptr<const KeyedRequest>;

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SOLVES_KEYED_REQUEST_H_
