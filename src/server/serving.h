// SPDX-License-Identifier: Apache-2.0
// What the processes that serve have in common: how they begin, and how they wait for their end.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "http/tls.h"

namespace trainyard::server {

// Call before any thread starts: blocks the signals that end the process (SIGHUP, too, where there
// is a certificate to be read again), so that wait_for_stop() gets them; raises the limit of open
// files; keeps memory that a burst of requests once needed from staying.
sigset_t begin_to_serve(bool has_certificate);

// After begin_to_serve(), while the service is started, which may take long: a large log is
// recovered, a database migrated. A signal that ends the process ends it at once, with code 0; the
// next start takes up what this one has begun, as after a crash.
class StartGuard {
 public:
  StartGuard();
  ~StartGuard();
  StartGuard(const StartGuard&) = delete;
  StartGuard& operator=(const StartGuard&) = delete;

 private:
  std::jthread thread_;
};

// Gives the number of the signal that ends the process; the next one ends it at once, since a stop
// may hang. SIGHUP reads the certificate again; null: there is none. That it ends soon is said at
// once, after each reading, and at every `interval`.
int wait_for_stop(const sigset_t& signals, http::TlsIdentity* identity, const Clock& clock,
                  Duration interval = std::chrono::days(1));

// What is to be said of a certificate that ends at `expires`; nothing while there is time.
std::optional<std::string> expiry_warning(WallTime expires, WallTime now);

// The URL of what listens there, on this machine and by its address: who listens everywhere is
// reached by loopback. A certificate need not name it.
std::string local_url(const std::string& address, std::uint16_t port, bool has_certificate);

// The same for clients. Under TLS the name must be one of the certificate's: if the address is not,
// its first name stands for it, and the log says so.
std::string announced_url(const std::string& address, std::uint16_t port,
                          const http::TlsIdentity* identity);

// The words of the flag --log-level.
const std::map<std::string, LogLevel>& log_levels();

}  // namespace trainyard::server
