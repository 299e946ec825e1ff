// Limits on open files and connections of the process, and how they are divided.
#ifndef STOWAGE_SERVER_NET_DESCRIPTORS_H_
#define STOWAGE_SERVER_NET_DESCRIPTORS_H_

namespace stowage {

// Connections to the HTTP port for operators.
inline constexpr int kMaxHttpConnections = 256;

// Raises the soft limit to the hard one. Call before threads start.
void AllowAllFiles();

// Callers' connections get descriptors below this number only. The others are reserved for the disk
// cache, the log and operators, so that a flooded server can still be inspected.
int MostConnectionDescriptors();

}  // namespace stowage

#endif  // STOWAGE_SERVER_NET_DESCRIPTORS_H_
