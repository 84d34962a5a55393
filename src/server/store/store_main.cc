// SPDX-License-Identifier: Apache-2.0
#include "server/store/store_main.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <stop_token>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "formats/json.h"
#include "server/serving.h"
#include "server/store/store_alone.h"
#include "server/store/store_flags.h"

namespace trainyard::server {
namespace {

constexpr std::size_t kMostNamed = 20;
constexpr int kInterrupted = 130;

int complain(const Error& error) {
  fmt::print(stderr, "trainyard store: {}\n", error.message);
  return error.code == Code::kInvalidArgument ? 2 : 1;
}

int run(const StoreConfig& config) {
  const sigset_t signals = begin_to_serve(config.tls.has_value());
  if (auto started = start_log(config.log_level); !started) {
    return complain(started.error());
  }
  SystemClock clock;
  SystemRandom random;
  auto store = [&] {
    const StartGuard guard;
    return StoreAlone::start(config, clock, random);
  }();
  if (!store) {
    return complain(store.error());
  }
  fmt::print("Trainyard's store serves {} (access key in {})\n", (*store)->endpoint(),
             config.keys.string());
  std::fflush(stdout);
  wait_for_stop(signals, (*store)->identity(), clock);
  store->reset();
  return 0;
}

// Says how far an import is, and tells it to stop when it is asked to (SIGINT, SIGTERM).
class ImportWatch {
 public:
  // Before any thread starts: they inherit that the signals are blocked.
  ImportWatch() : began_(std::chrono::steady_clock::now()) {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }

  std::stop_token token() const { return stop_.get_token(); }

  void operator()(const s3::AdoptProgress& progress) {
    constexpr timespec kNoWait{.tv_sec = 0, .tv_nsec = 0};
    if (sigtimedwait(&signals_, nullptr, &kNoWait) > 0) {
      stop_.request_stop();
      // The next one ends it at once.
      pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
    }
    if (::isatty(STDERR_FILENO) != 1) {
      return;
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - began_;
    fmt::print(stderr, "\r\x1b[K{} files, {} read, {:.0f} files/s{}", progress.files,
               human_bytes(progress.read),
               static_cast<double>(progress.files) / std::max(time.count(), 0.001),
               stop_.stop_requested() ? ", stopping" : "");
    std::fflush(stderr);
  }

 private:
  const std::chrono::steady_clock::time_point began_;
  sigset_t signals_{};
  std::stop_source stop_;
};

void print_outcome(const ImportConfig& config, const s3::AdoptProgress& done) {
  if (config.as_json) {
    const nlohmann::json outcome = {{"files", done.files},        {"bytes", done.bytes},
                                    {"shared", done.shared},      {"passed", done.passed},
                                    {"stopped", done.is_stopped}, {"refused", done.refused}};
    fmt::print("{}\n", dump_json(outcome));
    return;
  }
  if (::isatty(STDERR_FILENO) == 1) {
    fmt::print(stderr, "\r\x1b[K");
  }
  fmt::print(
      "{} files are objects of s3://{}/{} now ({}, {} of them without a copy), {} were before\n",
      done.files, config.what.bucket, config.what.prefix, human_bytes(done.bytes), done.shared,
      done.passed);
  if (done.is_stopped) {
    fmt::print(stderr, "stopped before the end: the same command goes on where this one was\n");
  }
  for (std::size_t i = 0; i < std::min(done.refused.size(), kMostNamed); ++i) {
    fmt::print(stderr, "left out: {}\n", done.refused[i]);
  }
  if (done.refused.size() > kMostNamed) {
    fmt::print(stderr, "and {} more; --json names all\n", done.refused.size() - kMostNamed);
  }
}

int run(const ImportConfig& config) {
  ImportWatch watch;
  SystemClock clock;
  SystemRandom random;
  const auto store = s3::DirectoryStore::open(config.root, clock, random);
  if (!store) {
    const Error& error = store.error();
    return complain(error.code == Code::kConflict
                        ? Error{error.code, error.message +
                                                ": stop the server that uses this store first, or "
                                                "upload with `aws s3 sync`"}
                        : error);
  }
  s3::AdoptOptions what = config.what;
  what.stop = watch.token();
  const auto done = s3::adopt(**store, what, std::ref(watch));
  if (!done) {
    return complain(done.error());
  }
  print_outcome(config, *done);
  if (done->is_stopped) {
    return kInterrupted;
  }
  return done->refused.empty() ? 0 : 1;
}

}  // namespace

int store_main(const std::vector<std::string>& args) {
  const auto parsed = parse_store_flags(args);
  if (!parsed) {
    return complain(parsed.error());
  }
  if (const auto* usage = std::get_if<Usage>(&*parsed)) {
    return show(*usage, "trainyard store");
  }
  if (const auto* import = std::get_if<ImportConfig>(&*parsed)) {
    return run(*import);
  }
  return run(std::get<StoreConfig>(*parsed));
}

}  // namespace trainyard::server
