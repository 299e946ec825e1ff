// The origin of an answer as the API has it: with the solver. Plain data.
#ifndef STOWAGE_CLIENT_C_NAMED_ORIGIN_H_
#define STOWAGE_CLIENT_C_NAMED_ORIGIN_H_

#include <array>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/service/origin.h"
#include "solver/json/json_fields.h"

namespace stowage {

struct NamedOrigin {
  std::string solver = {};
  Origin origin = {};
};

template <>
struct EnumeratorsOf<Origin::Source> {
  using Source = Origin::Source;
  static constexpr absl::string_view kWanted = "a source, such as SOLVED";
  static constexpr std::array kAll = {Source::kSolved, Source::kMemoryCache, Source::kDiskCache,
                                      Source::kCoalesced, Source::kSharedCache};
  static absl::string_view Name(Source source) { return SourceName(source); }
};

template <typename Visitor, MessageOf<NamedOrigin> Message>
void VisitFields(Visitor& visitor, Message& named) {
  visitor.Field("solver", named.solver);
  visitor.Field("queue_seconds", named.origin.queue_seconds);
  visitor.Field("solve_seconds", named.origin.solve_seconds);
  visitor.Field("source", named.origin.source);
  visitor.Field("fingerprint", named.origin.fingerprint);
}

}  // namespace stowage

#endif  // STOWAGE_CLIENT_C_NAMED_ORIGIN_H_
