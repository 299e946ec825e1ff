// What gRPC says of a failed call in words alone: it has no codes for these.
#ifndef STOWAGE_CLIENT_LIB_RPC_GRPC_TEXT_H_
#define STOWAGE_CLIENT_LIB_RPC_GRPC_TEXT_H_

#include "absl/strings/string_view.h"

namespace stowage {

struct GrpcText {
  bool tls = false;              // the two sides do not come to terms over TLS
  bool broken = false;           // the connection, or one behind a proxy, broke in mid-call
  bool never_connected = false;  // no connection could be made
  bool closed = false;           // the other side closed the connection
  bool key_does_not_fit = false;
  bool too_large = false;  // the request, for the server

  // `text`: the message of a grpc::Status that no Stowage server made. Texts that are not gRPC's
  // are a proxy's, which found no server that takes the call.
  static GrpcText Read(absl::string_view text);
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_RPC_GRPC_TEXT_H_
