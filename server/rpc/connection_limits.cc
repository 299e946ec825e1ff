#include "server/rpc/connection_limits.h"

#include <chrono>
#include <cstddef>

#include "google/protobuf/stubs/logging.h"
#include "grpcpp/resource_quota.h"

namespace stowage {
namespace {

using std::chrono::milliseconds;

// From the connection to the end of its handshake; a client on the far side of the world needs one.
constexpr milliseconds kHandshake = std::chrono::seconds(10);
// Without a call. Clients connect again by themselves at their next.
constexpr milliseconds kIdle = std::chrono::minutes(10);
// Whether somebody is still there, while a call runs: what a machine that lost its power asked for
// is not solved to the end.
constexpr milliseconds kKeepalive = std::chrono::seconds(60);
constexpr milliseconds kKeepaliveAnswer = std::chrono::seconds(20);
// Of one connection, at a time; clients queue further ones by themselves.
constexpr int kCalls = 1000;
constexpr int kMetadataBytes = 16 << 10;

}  // namespace

void LimitConnections(int64_t arriving_bytes, grpc::ServerBuilder& builder) {
  // What is wrong with a message its sender is told; the parser would write it to standard error.
  google::protobuf::SetLogHandler(nullptr);
  // gRPC inflates a message whole before it looks at its size, and no quota counts that.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  const auto set = [&builder](const char* argument, auto value) {
    builder.AddChannelArgument(argument, static_cast<int>(value));
  };
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshake.count());
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdle.count());
  set(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepalive.count());
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveAnswer.count());
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCalls);
  set(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytes);
  grpc::ResourceQuota quota("connections");
  quota.Resize(static_cast<size_t>(arriving_bytes));
  builder.SetResourceQuota(quota);
}

}  // namespace stowage
