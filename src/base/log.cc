// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <memory>
#include <utility>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "base/encoding.h"
#include "base/mutex.h"

namespace trainyard {
namespace {

using Logger = std::shared_ptr<spdlog::logger>;

Logger make_logger(const spdlog::sink_ptr& sink, LogLevel level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  auto logger = std::make_shared<spdlog::logger>("trainyard", sink);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  logger->set_level(kLevels[static_cast<int>(level)]);
  // A line is on its way before the next thing can go wrong.
  logger->flush_on(spdlog::level::trace);
  return logger;
}

// The one piece of process-wide state: until start_log() it writes to standard error.
class CurrentLog {
 public:
  Logger get() {
    const MutexLock lock(mutex_);
    return logger_;
  }

  void set(Logger logger) {
    const MutexLock lock(mutex_);
    logger_ = std::move(logger);
  }

 private:
  Mutex mutex_;
  Logger logger_ GUARDED_BY(mutex_) = make_logger(std::make_shared<spdlog::sinks::stderr_sink_mt>(),
                                                  LogLevel::kInfo);
};

CurrentLog& current() {
  // Never destroyed: threads may log while the program ends.
  static CurrentLog& log = *std::make_unique<CurrentLog>().release();
  return log;
}

// One fact stays one line, whatever a client put into its names.
std::string on_one_line(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      line += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      line += "\\x" + to_hex({&c, 1});
    } else {
      line += c;
    }
  }
  return line;
}

void log_line(spdlog::level::level_enum level, std::string_view text) {
  const Logger logger = current().get();
  if (logger->should_log(level)) {
    logger->log(level, on_one_line(text));
  }
}

}  // namespace

Result<void> start_log(LogLevel level, const Path& file) {
  if (file.empty()) {
    current().set(make_logger(std::make_shared<spdlog::sinks::stderr_sink_mt>(), level));
    return {};
  }
  try {
    current().set(
        make_logger(std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string()), level));
    return {};
  } catch (const spdlog::spdlog_ex& failure) {
    return Error{Code::kUnavailable,
                 "the log cannot be written to " + file.string() + ": " + failure.what()};
  }
}

void log_debug(std::string_view text) {
  log_line(spdlog::level::debug, text);
}
void log_info(std::string_view text) {
  log_line(spdlog::level::info, text);
}
void log_warning(std::string_view text) {
  log_line(spdlog::level::warn, text);
}
void log_error(std::string_view text) {
  log_line(spdlog::level::err, text);
}

}  // namespace trainyard
