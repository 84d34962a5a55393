// SPDX-License-Identifier: Apache-2.0
#include "control/decide/failure.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "base/encoding.h"
#include "base/text.h"

namespace trainyard::control {
namespace {

using std::chrono::duration_cast;
using std::chrono::seconds;

constexpr std::string_view kPlatform = "InternalServerError: ";
// A report is stamped when the server takes it; how long it was on its way is not known. A program
// that failed while the last report of its peer travelled may well have failed because of the peer.
constexpr Duration kTravel{500};

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? std::string("unknown") : fmt::format("SIG{}", name);
}

std::string how_it_ended(const wire::Exit& exit) {
  if (exit.out_of_memory) {
    return "was killed because it ran out of memory";
  }
  if (exit.signal != 0) {
    return fmt::format("was killed by signal {} ({})", exit.signal, signal_name(exit.signal));
  }
  // Shells and launchers turn the signal of their child into 128 + signal.
  const int signal = exit.code - 128;
  if (signal > 0 && sigabbrev_np(signal) != nullptr) {
    return fmt::format("exited with code {} (as after signal {}, {})", exit.code, signal,
                       signal_name(signal));
  }
  return fmt::format("exited with code {}", exit.code);
}

bool is_failure(const wire::Exit& exit) {
  return !exit.stopped && (exit.code != 0 || exit.signal != 0 || exit.out_of_memory);
}

// Where it happened. One launcher may have the ranks of all hosts; then each tells the same end.
const std::string& host_of(const InstanceFacts& culprit) {
  return culprit.exit && !culprit.exit->host.empty() ? culprit.exit->host : culprit.host;
}

// Whom we stopped, and who fell when the culprit was gone: neither is to be looked into.
std::string victims(const std::string& culprit, const Facts& facts) {
  std::vector<std::string> stopped;
  std::vector<std::string> failed;
  for (const InstanceFacts& instance : facts.instances) {
    if (instance.host != culprit && instance.exit) {
      if (instance.exit->stopped || instance.exit->host == culprit) {
        stopped.push_back(instance.host);
      } else if (is_failure(*instance.exit)) {
        failed.push_back(instance.host);
      }
    }
  }
  std::vector<std::string> parts;
  if (!stopped.empty()) {
    parts.push_back(some_of(stopped) + " stopped because of it");
  }
  if (!failed.empty()) {
    parts.push_back(some_of(failed) + " failed after it");
  }
  return parts.empty() ? std::string() : fmt::format(" ({})", join(parts, "; "));
}

std::string_view last_characters(std::string_view text, std::size_t count) {
  const std::size_t length = utf8_length(text);
  return length <= count ? text : text.substr(utf8_prefix(text, length - count).size());
}

constexpr unsigned char kDelete = 0x7f;

unsigned char byte_at(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

// How many bytes from `i` on are no text: a control character, or with ESC [ the whole sequence,
// such as a colour.
std::size_t control_at(std::string_view text, std::size_t i) {
  constexpr unsigned char kEscape = 0x1b;
  const unsigned char byte = byte_at(text, i);
  // U+0080 to U+009F, which terminals take for ESC and another character.
  if (byte == 0xc2 && byte_at(text, i + 1) >= 0x80 && byte_at(text, i + 1) < 0xa0) {
    return 2;
  }
  if (byte != kDelete && (byte >= ' ' || byte == '\n' || byte == '\t')) {
    return 0;
  }
  if (byte != kEscape || byte_at(text, i + 1) != '[') {
    return 1;
  }
  std::size_t end = i + 2;
  while (byte_at(text, end) >= ' ' && byte_at(text, end) < '@') {
    ++end;
  }
  const bool is_complete = byte_at(text, end) >= '@' && byte_at(text, end) < kDelete;
  return end - i + (is_complete ? 1 : 0);
}

// A reason is shown in terminals and tables: of what is no text, line ends and tabs stay.
std::string without_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t skipped = control_at(text, i);
    if (skipped == 0) {
      out += text[i];
    }
    i += std::max<std::size_t>(skipped, 1);
  }
  return out;
}

// A FailureReason: at most so long, and text.
std::string clean(std::string_view text) {
  return std::string(utf8_prefix(without_controls(to_valid_utf8(text)), kMaxReason));
}

// Whose fault an error of an instance is.
bool is_clients(Code code) {
  return code == Code::kInvalidArgument || code == Code::kNotFound || code == Code::kDenied ||
         code == Code::kExhausted;
}

// By somebody with the right to do so; a machine that goes down does it to every process.
bool was_killed(const wire::Exit& exit) {
  return !exit.stopped && !exit.out_of_memory &&
         (exit.signal == SIGKILL || exit.code == 128 + SIGKILL);
}

// Of the program, or of what was asked for.
Fault fault_of_user(WallTime at, std::string reason, const InstanceFacts& instance) {
  return {.at = at, .reason = std::move(reason), .host = instance.host, .began = at};
}

Fault fault_of_platform(WallTime at, std::string_view what, const InstanceFacts& instance) {
  return {.at = at,
          .reason = clean(fmt::format("{}{}", kPlatform, what)),
          .host = instance.host,
          .is_platform = true,
          .began = at};
}

// The same text as long as it lasts: it is compared with what was said before.
Fault lost(const InstanceFacts& instance, const Facts& facts) {
  const bool has_reported = instance.last_report || instance.heard;
  std::string why = "its supervisor ended";
  if (!instance.supervisor_ended) {
    const auto bound = instance.last_report ? wire::kSilence : kFirstReport;
    why = fmt::format("no {}report for more than {} s", has_reported ? "" : "first ",
                      duration_cast<seconds>(bound).count());
  } else if (!has_reported) {
    why += " before its first report";
  }
  if (!instance.unstored.empty()) {
    why += "; the server could not keep what it had reported: " + instance.unstored;
  }
  const WallTime at = instance.last_report ? instance.last_report->wall
                                           : instance.heard.value_or(facts.launched.wall);
  Fault fault =
      fault_of_platform(at, fmt::format("instance {} was lost ({})", instance.host, why), instance);
  if (instance.phase < wire::Phase::kEnded) {
    fault.began -= kTravel;
  } else if (instance.exit && was_killed(*instance.exit)) {
    fault.began =
        std::min(fault.began, instance.exit->at);  // the program went first, by an instant
  }
  return fault;
}

}  // namespace

std::string_view cause_of(const Fault& fault) {
  const std::string_view reason = fault.reason;
  const std::size_t colon = reason.find(": ");
  return colon == std::string_view::npos ? reason : reason.substr(colon + 2);
}

std::optional<Fault> fault_of(const InstanceFacts& instance, const Facts& facts, bool asked,
                              const Now& now) {
  const WallTime seen = instance.heard.value_or(instance.last_report.value_or(now).wall);
  if (instance.error) {
    Error error = *instance.error;
    error.message = fmt::format("{}: {}", instance.host, error.message);
    return is_clients(error.code) ? fault_of_user(seen, reason_of(error), instance)
                                  : fault_of_platform(seen, error.message, instance);
  }
  const bool lost_now = is_lost(instance, facts, now);
  if (instance.exit && is_failure(*instance.exit) && !(lost_now && was_killed(*instance.exit))) {
    return fault_of_user(instance.exit->at, reason_of(instance, facts), instance);
  }
  const bool was_asked = asked || (instance.exit && instance.exit->is_overdue);
  if (instance.exit && instance.exit->stopped && (!was_asked || instance.exit->is_leaving)) {
    return fault_of_platform(instance.exit->at,
                             fmt::format("instance {} was stopped from outside", instance.host),
                             instance);
  }
  if (!instance.exit && !asked && instance.phase >= wire::Phase::kEnded) {
    return fault_of_platform(seen, fmt::format("instance {} ended without a result", instance.host),
                             instance);
  }
  if (lost_now) {
    return lost(instance, facts);
  }
  return std::nullopt;
}

std::string reason_of(const Error& error) {
  return clean(
      fmt::format("{}{}", is_clients(error.code) ? "ClientError: " : kPlatform, error.message));
}

std::string launch_reason_of(const Error& error) {
  return clean(fmt::format("{}{}", error.code == Code::kExhausted ? "CapacityError: " : kPlatform,
                           error.message));
}

std::string reason_of(const InstanceFacts& culprit, const Facts& facts) {
  const wire::Exit exit = culprit.exit.value_or(wire::Exit());
  const std::string& host = host_of(culprit);
  const std::string who =
      exit.global_rank ? fmt::format("rank {} on {}", *exit.global_rank, host) : host;
  const std::string head =
      fmt::format("AlgorithmError: {} {}{}", who, how_it_ended(exit), victims(host, facts));
  const int code = exit.signal != 0 ? 128 + exit.signal : exit.code;
  const std::string tail = fmt::format(", exit code: {}", code);
  std::string text;
  bool from_the_end = false;  // the last lines of a traceback say most, the first of a report do
  const std::string failure = without_controls(exit.failure_file);
  if (!trim(failure).empty()) {
    text = fmt::format(": {}", trim(failure));
  } else if (!exit.last_lines.empty()) {
    text = without_controls(join(exit.last_lines, "\n"));
    from_the_end = true;
  }
  constexpr std::string_view kIntroduction = "; last lines: ";
  const std::size_t fixed = utf8_length(head) + tail.size() + kIntroduction.size();
  const std::size_t room = fixed < kMaxReason ? kMaxReason - fixed : 0;
  if (from_the_end) {
    text = fmt::format("{}{}", kIntroduction, last_characters(text, room));
  }
  return clean(fmt::format("{}{}{}", head, utf8_prefix(text, room + kIntroduction.size()), tail));
}

std::optional<WallTime> overdue_since(const Facts& facts) {
  std::optional<WallTime> first;
  for (const InstanceFacts& instance : facts.instances) {
    if (instance.exit && instance.exit->is_overdue) {
      first = std::min(first.value_or(instance.exit->at), instance.exit->at);
    }
  }
  return first;
}

bool is_lost(const InstanceFacts& instance, const Facts& facts, const Now& now) {
  if (instance.phase == wire::Phase::kFinished) {
    return false;
  }
  if (instance.supervisor_ended) {
    return true;
  }
  return instance.last_report ? now.steady - instance.last_report->steady > wire::kSilence
                              : now.steady - facts.launched.steady > kFirstReport;
}

std::vector<std::string> lost_together(const Fault& first, const Facts& facts, const Now& now) {
  std::vector<std::string> hosts;
  bool is_loss = false;
  for (const InstanceFacts& instance : facts.instances) {
    if (!is_lost(instance, facts, now)) {
      continue;
    }
    is_loss = is_loss || instance.host == first.host;
    if (instance.host != first.host && lost(instance, facts).began <= first.began + kOneEvent) {
      hosts.push_back(instance.host);
    }
  }
  return is_loss ? hosts : std::vector<std::string>();
}

std::optional<Fault> first_fault(const Facts& facts, bool asked, const Now& now) {
  std::optional<Fault> first;
  for (const InstanceFacts& instance : facts.instances) {
    auto fault = fault_of(instance, facts, asked, now);
    if (fault && (!first || fault->began < first->began)) {
      first = std::move(fault);
    }
  }
  return first;
}

}  // namespace trainyard::control
