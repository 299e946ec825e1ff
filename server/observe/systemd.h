// Notifies systemd (Type=notify), so that an update waits until the server serves and a stop until
// its solves have ended. Does nothing where $NOTIFY_SOCKET is not set. The only user of libsystemd.
#ifndef STOWAGE_SERVER_OBSERVE_SYSTEMD_H_
#define STOWAGE_SERVER_OBSERVE_SYSTEMD_H_

#include <string>

namespace stowage {

// The server serves at `address`. Where the notification fails, which is logged, systemd stops the
// server after TimeoutStartSec.
void NotifyReady(const std::string& address);

// The server reads its configuration again; NotifyReady() says when it has.
void NotifyReloading();

// The server stops, and the process ends within `seconds`. systemd waits that long even where the
// unit's TimeoutStopSec is shorter.
void NotifyStopping(double seconds);

}  // namespace stowage

#endif  // STOWAGE_SERVER_OBSERVE_SYSTEMD_H_
