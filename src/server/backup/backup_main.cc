// SPDX-License-Identifier: Apache-2.0
#include "server/backup/backup_main.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/clock.h"
#include "base/command_line.h"
#include "base/home.h"
#include "base/text.h"
#include "formats/json.h"
#include "server/backup/home_archive.h"
#include "server/backup/home_check.h"
#include "server/backup/home_copy.h"

namespace trainyard::server {
namespace {

using nlohmann::json;

struct Flags {
  std::string home;
  std::string target;  // the backup; of check: what to check
  bool as_json = false;
};

Path home_of(const Flags& flags) {
  return flags.home.empty() ? own_home() : Path(flags.home);
}
// Without links, which no rename replaces by what they lead to, and without a slash at its end,
// which would be a name of its own for what stands beside it.
Path plain(const Path& path) {
  std::error_code failed;
  Path full = std::filesystem::weakly_canonical(std::filesystem::absolute(path, failed), failed);
  if (failed) {
    full = std::filesystem::absolute(path, failed).lexically_normal();
  }
  return full.has_filename() ? full : full.parent_path();
}

// One line that is written over, for a person at a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool is_wanted) : is_shown_(is_wanted && ::isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() {
    if (has_shown_) {
      fmt::print(stderr, "\r\x1b[K");
    }
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const std::string& what, std::uint64_t done, std::uint64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (!is_shown_ || now - last_ < std::chrono::milliseconds(100)) {
      return;
    }
    last_ = now;
    has_shown_ = true;
    fmt::print(stderr, "\r\x1b[K{}{}{}", what, done > 0 ? fmt::format(" {}", done) : "",
               total > 0 ? fmt::format(" of {}", total) : "");
    std::fflush(stderr);
  }

 private:
  bool is_shown_;
  bool has_shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

// Set by the first signal: the work ends at its next step and takes away what it has begun. The
// second one ends the process.
std::atomic<bool>& interrupted() {
  static std::atomic<bool> is_set = false;
  static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set it");
  return is_set;
}

void end_cleanly_on_signals() {
  interrupted() = false;
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted() = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction current {};
    const bool is_ignored =  // by nohup, say
        ::sigaction(number, nullptr, &current) == 0 && current.sa_handler == SIG_IGN;
    if (!is_ignored) {
      ::sigaction(number, &action, nullptr);
    }
  }
}

// What shows on `line`, and ends at a signal.
CopyProgress shown_on(ProgressLine& line) {
  return [&line](const std::string& what, std::uint64_t done, std::uint64_t total) -> Result<void> {
    if (interrupted()) {
      return Error{Code::kCancelled, "stopped by a signal: nothing of it is left"};
    }
    line.show(what, done, total);
    return {};
  };
}

int refuse(std::string_view verb, const Error& error) {
  fmt::print(stderr, "trainyard {}: {}\n", verb, error.message);
  return 1;
}

json to_json(const CopyCounts& counts) {
  return {{"objects", counts.contents}, {"bytes", counts.bytes}, {"log_files", counts.log_files}};
}
std::string in_words(const CopyCounts& counts) {
  return fmt::format("{} objects and parts ({}), {} log files", counts.contents,
                     human_bytes(counts.bytes), counts.log_files);
}

std::optional<Usage> read(CLI::App& app, Flags& flags, const std::vector<std::string>& args) {
  app.add_flag("--json", flags.as_json, "Say what was done as JSON");
  return read_command_line(app, args);
}

void add_home(CLI::App& app, Flags& flags, const std::string& what) {
  app.add_option("--home", flags.home, what + " [" + own_home().string() + "]");
}

}  // namespace

int backup_main(const std::vector<std::string>& args) {
  CLI::App app(
      "Copies a server's home (jobs, objects, logs, configuration, keys) into a new directory, or "
      "into one file when the name ends in .tar.gz, also while the server runs. It appears when "
      "the copy is whole.",
      "trainyard backup");
  Flags flags;
  app.add_option("BACKUP", flags.target, "The directory or .tar.gz to make")->required();
  add_home(app, flags, "The home of the server, or the root of a store");
  app.footer("On the file system of the home, objects are linked and take no space.");
  if (const auto usage = read(app, flags, args)) {
    return show(*usage);
  }
  const Path target = plain(flags.target);
  SystemClock clock;
  end_cleanly_on_signals();
  Result<CopyCounts> done = Error{};
  {
    ProgressLine line(!flags.as_json);
    const auto make = is_archive_name(target) ? make_backup_file : make_backup;
    done = make(plain(home_of(flags)), target, clock.now(), shown_on(line));
  }
  if (!done) {
    return refuse("backup", done.error());
  }
  if (flags.as_json) {
    json out = to_json(*done);
    out["backup"] = target.string();
    fmt::print("{}\n", dump_json(out, 2));
  } else {
    fmt::print("Backed up {} into {}\n", in_words(*done), target.string());
  }
  return 0;
}

int restore_main(const std::vector<std::string>& args) {
  CLI::App app(
      "Makes the home of a server from a backup, and checks all of it. The home must be empty or "
      "not there. Jobs that were running then begin another attempt when the server starts.",
      "trainyard restore");
  Flags flags;
  app.add_option("BACKUP", flags.target, "The directory or .tar.gz")->required();
  add_home(app, flags, "The home to make");
  if (const auto usage = read(app, flags, args)) {
    return show(*usage);
  }
  const Path home = plain(home_of(flags));
  end_cleanly_on_signals();
  Result<CopyCounts> done = Error{};
  {
    ProgressLine line(!flags.as_json);
    const auto restore = is_archive_name(flags.target) ? restore_backup_file : restore_backup;
    done = restore(plain(flags.target), home, shown_on(line));
  }
  if (!done) {
    return refuse("restore", done.error());
  }
  if (flags.as_json) {
    json out = to_json(*done);
    out["home"] = home.string();
    fmt::print("{}\n", dump_json(out, 2));
  } else {
    fmt::print("Restored {} into {}\n", in_words(*done), home.string());
  }
  return 0;
}

int check_main(const std::vector<std::string>& args) {
  CLI::App app(
      "Reads all of a server's home, or of a backup, and names what is damaged or missing. Changes "
      "nothing; the server may run meanwhile. 1 when something is wrong.",
      "trainyard check");
  Flags flags;
  app.add_option("DIR", flags.target,
                 "A home, the root of a store or a backup [" + own_home().string() + "]");
  if (const auto usage = read(app, flags, args)) {
    return show(*usage);
  }
  const Path home = plain(flags.target.empty() ? own_home() : Path(flags.target));
  Result<HomeReport> report = Error{};
  {
    ProgressLine line(!flags.as_json);
    report = check_home(home, shown_on(line));
  }
  if (!report) {
    return refuse("check", report.error());
  }
  if (flags.as_json) {
    fmt::print("{}\n", dump_json(json{{"home", home.string()},
                                      {"objects", report->contents},
                                      {"bytes", report->bytes},
                                      {"log_files", report->log_files},
                                      {"log_lines", report->log_lines},
                                      {"problem_count", report->problem_count},
                                      {"problems", report->problems}},
                                 2));
  } else {
    for (const std::string& problem : report->problems) {
      fmt::print("{}\n", problem);
    }
    fmt::print("{}: the databases, {} objects and parts ({}), {} lines in {} log files: {}\n",
               home.string(), report->contents, human_bytes(report->bytes), report->log_lines,
               report->log_files,
               report->problems.empty() ? "all is well"
                                        : fmt::format("{} problems", report->problem_count));
  }
  return report->problems.empty() ? 0 : 1;
}

}  // namespace trainyard::server
