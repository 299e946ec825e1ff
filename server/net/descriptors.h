// How many files and connections the process may have open, and who of them gets how many.
#ifndef STOWAGE_SERVER_NET_DESCRIPTORS_H_
#define STOWAGE_SERVER_NET_DESCRIPTORS_H_

namespace stowage {

// Connections of operators; see HttpPort.
inline constexpr int kMostHttpConnections = 256;

// Raises the soft limit to the hard one. Call before threads start.
void AllowAllFiles();

// Descriptors from this number on are not for callers' connections, but for the store, the log and
// operators, who want to look at a server that is flooded.
int MostConnectionDescriptors();

}  // namespace stowage

#endif  // STOWAGE_SERVER_NET_DESCRIPTORS_H_
