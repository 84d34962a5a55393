// SPDX-License-Identifier: Apache-2.0
#include "server/serving.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/thread.h"
#include "server/gateways.h"

namespace trainyard::server {
namespace {

// Where a program of this machine reaches who listens at that address.
std::string local_host(const std::string& address) {
  return address == "0.0.0.0" || address == "::" ? "127.0.0.1" : address;
}

// Wakes a guard's thread, so that it can end. The number is known at run time only.
int wake_up() {
  return SIGRTMIN;
}

// Blocked in every thread, so that the one that waits for them gets them.
sigset_t block_signals(bool has_certificate) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  if (has_certificate) {
    sigaddset(&signals, SIGHUP);  // reads it again; without one it ends the process, as usual
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A peer that closes early is an error of one write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

// Every connection, open object and log stream is a descriptor; the usual soft limit is 1,024.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

// For whoever is tired of waiting for the stop. What was acknowledged is on disk.
void let_signals_end_the_process() {
  sigset_t ends;
  sigemptyset(&ends);
  for (const int number : {SIGTERM, SIGINT}) {
    std::signal(number, SIG_DFL);
    sigaddset(&ends, number);
  }
  pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
}

void warn_of_expiry(const http::TlsIdentity& identity, const Clock& clock) {
  if (const auto warning = expiry_warning(identity.expires(), clock.now())) {
    log_warning(*warning);
  }
}

void reload(http::TlsIdentity& identity) {
  if (const auto done = identity.reload(); !done) {
    log_error("the old certificate stays in use: " + done.error().message);
    return;
  }
  log_info("new connections get the certificate that is valid until " +
           to_http_date(identity.expires()));
}

timespec timespec_of(Duration time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {.tv_sec = seconds.count(), .tv_nsec = std::chrono::nanoseconds(time - seconds).count()};
}

}  // namespace

sigset_t begin_to_serve(bool has_certificate) {
  allow_many_files();
  // One heap per thread would keep memory that a burst of requests once needed.
  mallopt(M_ARENA_MAX, 4);
  return block_signals(has_certificate);
}

StartGuard::StartGuard() {
  sigset_t awaited;
  sigemptyset(&awaited);
  for (const int number : {SIGTERM, SIGINT, wake_up()}) {
    sigaddset(&awaited, number);
  }
  pthread_sigmask(SIG_BLOCK, &awaited, nullptr);  // before there is a thread that it could end
  thread_ = start_thread("start-guard", [awaited](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const int number = ::sigwaitinfo(&awaited, nullptr);
      if (number == SIGTERM || number == SIGINT) {
        log_info("stopping before the start was complete");
        ::_exit(0);
      }
    }
  });
}

StartGuard::~StartGuard() {
  thread_.request_stop();
  pthread_kill(thread_.native_handle(), wake_up());
  thread_.join();
}

int wait_for_stop(const sigset_t& signals, http::TlsIdentity* identity, const Clock& clock,
                  Duration interval) {
  const timespec patience = timespec_of(interval);
  while (true) {
    if (identity != nullptr) {
      warn_of_expiry(*identity, clock);
    }
    const int number = ::sigtimedwait(&signals, nullptr, &patience);
    if (number == SIGHUP && identity != nullptr) {
      reload(*identity);
    } else if (number > 0) {
      let_signals_end_the_process();
      return number;
    }
  }
}

std::optional<std::string> expiry_warning(WallTime expires, WallTime now) {
  constexpr std::chrono::days kSoon{30};
  if (expires - now >= kSoon) {
    return std::nullopt;
  }
  return fmt::format("the certificate {} on {}: replace it and send SIGHUP",
                     now < expires ? "expires" : "expired", to_http_date(expires));
}

std::string local_url(const std::string& address, std::uint16_t port, bool has_certificate) {
  return base_url(local_host(address), port, has_certificate ? "https" : "http");
}

std::string announced_url(const std::string& address, std::uint16_t port,
                          const http::TlsIdentity* identity) {
  const std::string host = local_host(address);
  if (identity == nullptr || identity->names(host)) {
    return local_url(address, port, identity != nullptr);
  }
  log_warning(
      fmt::format("the certificate does not name {}: clients must use a name that it does", host));
  const std::string name = identity->first_name();
  return base_url(name.empty() ? host : name, port, "https");
}

const std::map<std::string, LogLevel>& log_levels() {
  static const std::map<std::string, LogLevel> kLevels = {{"debug", LogLevel::kDebug},
                                                          {"info", LogLevel::kInfo},
                                                          {"warning", LogLevel::kWarning},
                                                          {"error", LogLevel::kError}};
  return kLevels;
}

}  // namespace trainyard::server
