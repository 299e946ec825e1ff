// What the service manager is told (systemd's Type=notify), so that an update waits for the server
// to serve and a stop for its solves to end. Nothing is told where $NOTIFY_SOCKET is not set. The
// only place that knows libsystemd.
#ifndef STOWAGE_SERVER_OBSERVE_SYSTEMD_H_
#define STOWAGE_SERVER_OBSERVE_SYSTEMD_H_

#include <string>

namespace stowage {

// Calls are taken at `address`. A manager that cannot be told stops the server once
// TimeoutStartSec is over; the log says then why.
void NotifyReady(const std::string& address);

// No new calls are taken, and the process ends within `seconds`. The manager waits for as long
// even where the unit's TimeoutStopSec is shorter.
void NotifyStopping(double seconds);

}  // namespace stowage

#endif  // STOWAGE_SERVER_OBSERVE_SYSTEMD_H_
