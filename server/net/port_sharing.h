// Whether several processes may listen on one port.
#ifndef STOWAGE_SERVER_NET_PORT_SHARING_H_
#define STOWAGE_SERVER_NET_PORT_SHARING_H_

namespace stowage {

// kShared: with others of the same user that share it, too (SO_REUSEPORT). Of new connections each
// of them gets a part. Of a Unix socket it means nothing.
enum class PortSharing { kAlone, kShared };

}  // namespace stowage

#endif  // STOWAGE_SERVER_NET_PORT_SHARING_H_
