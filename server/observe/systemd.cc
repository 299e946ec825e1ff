#include "server/observe/systemd.h"

#include <systemd/sd-daemon.h>

#include <chrono>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/observe/log.h"

namespace stowage {
namespace {

void Notify(const std::string& state) {
  // 0: $NOTIFY_SOCKET is not set, so that systemd does not supervise the process.
  const int result = sd_notify(/*unset_environment=*/0, state.c_str());
  if (result >= 0) return;
  Log(LogLevel::kWarning, "notify_failed",
      {{"message",
        absl::StrCat("cannot notify the service manager through $NOTIFY_SOCKET: ",
                     std::strerror(-result), "; set NotifyAccess=main, or unset the variable")}});
}

}  // namespace

void NotifyReady(const std::string& address) {
  Notify(absl::StrCat("READY=1\nSTATUS=Serving at ", address));
}

// Type=notify-reload wants the time, by which systemd tells this reload from an earlier one.
void NotifyReloading() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  Notify(absl::StrCat("RELOADING=1\nMONOTONIC_USEC=",
                      std::chrono::duration_cast<std::chrono::microseconds>(now).count()));
}

void NotifyStopping(double seconds) {
  Notify(absl::StrCat("STOPPING=1\nSTATUS=Ends within ", seconds,
                      " s\nEXTEND_TIMEOUT_USEC=", static_cast<int64_t>(seconds * 1e6)));
}

}  // namespace stowage
