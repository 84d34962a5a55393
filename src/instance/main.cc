// SPDX-License-Identifier: Apache-2.0
#include "instance/main.h"

#include <cstdio>
#include <optional>

#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "http/client.h"
#include "instance/faults.h"
#include "instance/launch/interfaces.h"
#include "instance/launch/request.h"
#include "instance/link/credentials_server.h"
#include "instance/link/inbox.h"
#include "instance/link/reporter.h"
#include "instance/link/role_credentials.h"
#include "instance/link/server_link.h"
#include "instance/machine.h"
#include "instance/run/private_mounts.h"
#include "instance/session.h"
#include "s3/client/s3_client.h"
#include "sandbox/loopback_plan.h"
#include "sandbox/user_namespace.h"

namespace trainyard::instance {
namespace {

constexpr const char* kHelp =
    "Performs one instance of a training job: fetches its assignment, makes its container, runs "
    "the\n"
    "program in it and reports. The server starts it, with the token in the scratch directory.\n"
    "\n"
    "Usage: trainyard instance --server URL --scratch DIR [--meeting DIR] [--loopback FIRST-LAST]\n"
    "  --meeting DIR  shared by the instances of the job on this machine: their ranks meet there\n";

constexpr Duration kAssignmentPatience{15'000};
// A later attempt is owed to a job that is known; its server may have just died.
constexpr Duration kRestartPatience{3'600'000};
constexpr Duration kAssignmentRetry{100};
// What a program needs before it starts is asked for over two to three minutes, in which a server
// may be started again.
constexpr int kDownloadAttempts = 30;
// The mirror of checkpoints tries for as long as the job lasts; one call only rides out a hiccup.
constexpr int kMirrorAttempts = 6;
constexpr Duration kMirrorDelay{2'000};
constexpr std::size_t kMirrorPart = std::size_t{8} << 20;

struct Options {
  std::string server;
  Path scratch;
  Path meeting = {};
  std::optional<sandbox::PortRange> loopback = {};
};

Result<Options> options_of(const std::vector<std::string>& args) {
  Options options;
  for (std::size_t i = 0; i + 1 < args.size(); i += 2) {
    if (args[i] == "--server") {
      options.server = args[i + 1];
    } else if (args[i] == "--scratch") {
      options.scratch = args[i + 1];
    } else if (args[i] == "--meeting") {
      options.meeting = args[i + 1];
    } else if (args[i] == "--loopback") {
      YARD_TRY(options.loopback, sandbox::parse_ports(args[i + 1]));
    } else {
      return Error{Code::kInvalidArgument, "unknown option " + args[i]};
    }
  }
  if (options.server.empty() || !options.scratch.is_absolute()) {
    return Error{Code::kInvalidArgument, "usage: trainyard instance --server URL --scratch DIR"};
  }
  return options;
}

// The server may be busy for a moment, or about to come back.
Result<wire::Assignment> fetch_assignment(ServerLink& link, Clock& clock, Duration patience) {
  const SteadyTime deadline = clock.steady_now() + patience;
  while (true) {
    Result<wire::Assignment> assignment = link.assignment();
    const bool again = !assignment && (assignment.error().code == Code::kUnavailable ||
                                       assignment.error().code == Code::kDeadline);
    if (!again || clock.steady_now() >= deadline) {
      return assignment;
    }
    if (Inbox::is_terminated_within(kAssignmentRetry)) {
      return Error{Code::kCancelled, "told to leave while the server was away"};
    }
  }
}

s3::S3ClientOptions store_options(const wire::Assignment& assignment, RoleCredentials& credentials,
                                  std::stop_token stop) {
  s3::S3ClientOptions options;
  options.endpoint = assignment.server;
  options.region = assignment.region;
  options.credentials = [&](bool refresh) { return credentials.signing_keys(refresh); };
  options.stop = std::move(stop);
  return options;
}

// What all attempts on this machine share.
struct Machine {
  const Path scratch;
  const Path meeting = {};
  const std::optional<sandbox::PortRange> loopback = {};
  const std::unique_ptr<http::Client> client = http::Client::make();
  SystemClock clock = {};
  SystemRandom random = {};
  Carried carried = {};
};

std::string own_address(const wire::Assignment& assignment) {
  for (const wire::Host& host : assignment.hosts) {
    if (host.name == assignment.host) {
      return host.address;
    }
  }
  return {};
}

CredentialsPlace credentials_place(const Machine& machine, const wire::Assignment& assignment,
                                   Random& random) {
  CredentialsPlace place{.path = "/v2/credentials/" + random.hex(16)};
  if (machine.loopback) {
    place.address = own_address(assignment);
    place.port = machine.loopback->credentials();
    place.token = random.hex(32);
  }
  return place;
}

std::optional<SharedNetwork> shared_network(const Machine& machine, const CredentialsPlace& place) {
  if (!machine.loopback) {
    return std::nullopt;
  }
  return SharedNetwork{
      .ports = *machine.loopback,
      .credentials_endpoint = "http://" + place.address + ":" + std::to_string(place.port),
      .credentials_token = place.token};
}

Result<SessionEnd> run_attempt(Machine& machine, ServerLink link,
                               const wire::Assignment& assignment) {
  http::Client* const client = machine.client.get();
  SystemClock& clock = machine.clock;
  SystemRandom& random = machine.random;
  log_info("instance " + assignment.host + " of " + assignment.job_name + ", epoch " +
           std::to_string(assignment.epoch));

  Inbox inbox(link);
  Reporter reporter(link, clock, machine.scratch / "reports.spool", [&] { inbox.push(Denied{}); });
  RoleCredentials credentials(link, clock);
  s3::S3ClientOptions patient = store_options(assignment, credentials, inbox.stopped());
  patient.max_attempts = kDownloadAttempts;
  YARD_TRY(const auto downloads, s3::S3Client::make(std::move(patient), *client, clock, random));
  YARD_TRY(const auto uploads,
           s3::S3Client::make(store_options(assignment, credentials, inbox.left()), *client, clock,
                              random));

  const CredentialsPlace place = credentials_place(machine, assignment, random);
  std::unique_ptr<http::Server> endpoint;
  if (!flag_at(assignment.request, "EnableNetworkIsolation")) {
    auto served = serve_credentials(place, credentials);
    if (!served) {
      // Told, so that the job says why it failed; then silence, and the server ends the attempt.
      reporter.error(platforms_fault(served.error().in("serving the role's credentials")));
      reporter.drain(kAssignmentPatience);
      return std::move(served).error();
    }
    endpoint = std::move(*served);
  }
  const MakeStore checkpoint_store =
      [&](std::stop_token stop) -> Result<std::unique_ptr<s3::ObjectStore>> {
    s3::S3ClientOptions options = store_options(assignment, credentials, std::move(stop));
    options.max_attempts = kMirrorAttempts;
    options.max_delay = kMirrorDelay;
    options.part_size = kMirrorPart;
    YARD_TRY(std::unique_ptr<s3::ObjectStore> store,
             s3::S3Client::make(std::move(options), *client, clock, random));
    return store;
  };
  Session session({.assignment = assignment,
                   .scratch = machine.scratch,
                   .meeting = machine.meeting,
                   .credentials_path = place.path,
                   .shared = shared_network(machine, place),
                   .downloads = *downloads,
                   .uploads = *uploads,
                   .checkpoint_store = checkpoint_store,
                   .reporter = reporter,
                   .inbox = inbox,
                   .clock = clock,
                   .carried = machine.carried});
  return session.run();
}

// One attempt after the other, until the job ends here.
Result<bool> supervise(const Options& options) {
  Machine machine{
      .scratch = options.scratch, .meeting = options.meeting, .loopback = options.loopback};
  YARD_TRY(const std::string token, read_file(options.scratch / "token", 4096));
  YARD_TRY(wire::Speaker speaker, wire::speaker_of(trim(token)));
  ServerLink link(*machine.client, options.server, std::move(speaker));
  for (Duration patience = kAssignmentPatience;; patience = kRestartPatience) {
    Result<wire::Assignment> fetched = fetch_assignment(link, machine.clock, patience);
    if (!fetched && fetched.error().code == Code::kDenied) {
      log_info("job already finished, or another instance does this one's part: nothing to do (" +
               fetched.error().message + ")");
      return true;
    }
    YARD_TRY(wire::Assignment assignment, std::move(fetched));
    assignment.network_interface = own_interface(assignment, network_interfaces());
    YARD_TRY(const SessionEnd end,
             run_attempt(machine, link.in_attempt(assignment.epoch), assignment));
    if (end != SessionEnd::kRestart) {
      return end == SessionEnd::kDone;
    }
  }
}

Result<bool> start(const std::vector<std::string>& args) {
  YARD_TRY(const Options options, options_of(args));
  // Both before the first thread: threads inherit them.
  Inbox::block_signals();
  YARD_TRY(options.loopback ? sandbox::enter_user_namespace() : enter_private_mounts());
  return supervise(options);
}

}  // namespace

int probe_main() {
  const Result<void> probed = sandbox::probe_user_namespaces();
  if (!probed) {
    std::fprintf(stderr, "%s\n", probed.error().message.c_str());
  }
  return probed ? 0 : 1;
}

int instance_main(const std::vector<std::string>& args) {
  if (!args.empty() && (args.front() == "--help" || args.front() == "-h")) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (const Result<void> log = start_log(LogLevel::kInfo); !log) {
    return 1;
  }
  const Result<bool> done = start(args);
  if (!done) {
    log_error("instance: " + done.error().message);
    return 1;
  }
  return *done ? 0 : 1;
}

}  // namespace trainyard::instance
