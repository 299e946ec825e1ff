#include "server/rpc/callers/connection_limits.h"

#include <chrono>
#include <cstddef>

#include "google/protobuf/stubs/logging.h"
#include "grpcpp/resource_quota.h"
#include "server/engine/limits/connection_accounts.h"

namespace stowage {
namespace {

using std::chrono::milliseconds;

// From the connection to the end of its handshake; a distant client needs about a second.
constexpr milliseconds kHandshake = std::chrono::seconds(10);
// Without a call. Clients reconnect by themselves at their next call.
constexpr milliseconds kIdle = std::chrono::minutes(10);
// Pings, with a call or without one: the solve of a client whose machine lost its power is stopped,
// and its connection ends. The second is the time for the answer to a ping.
constexpr milliseconds kKeepalive = std::chrono::seconds(60);
constexpr milliseconds kKeepaliveAnswer = std::chrono::seconds(20);
// What gRPC reads from a connection at a time: what it has read it also handles, though the
// connection was cut off meanwhile. A flood takes it milliseconds, messages it slows down by
// little.
constexpr int kReadBytes = 16 << 10;
// Of each stream, whatever the network: 20 MB/s where an answer takes 50 ms. That of the connection
// stays at 64 KiB beside what is missing of messages that have begun to arrive: gRPC 1.51 widens it
// by its probes alone, to 32 MiB. What a client sends without one being opened again is no message.
constexpr int kWindowBytes = 1 << 20;
constexpr int kMetadataBytes = 16 << 10;

}  // namespace

void LimitConnections(int64_t arriving_bytes, grpc::ServerBuilder& builder) {
  // Errors of the parser are reported to the caller; by default it also prints them to standard
  // error, where any client could fill the log.
  google::protobuf::SetLogHandler(nullptr);
  // gRPC decompresses a whole message before it checks its size, and no quota counts that memory.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  const auto set = [&builder](const char* argument, auto value) {
    builder.AddChannelArgument(argument, static_cast<int>(value));
  };
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshake.count());
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdle.count());
  set(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepalive.count());
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveAnswer.count());
  // Pings are limited with all else that a client sends for nothing: see connection_governor.h.
  // gRPC would count those that a network held up, and handle each that comes after its verdict at
  // length.
  set(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  set(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadBytes);
  set(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxOpenStreams);
  set(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytes);
  grpc::ResourceQuota quota("connections");
  quota.Resize(static_cast<size_t>(arriving_bytes));
  builder.SetResourceQuota(quota);
}

}  // namespace stowage
