// SPDX-License-Identifier: Apache-2.0
#include "comm/health/dump.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "comm/health/names.h"
#include "comm/health/status_file.h"
#include "formats/json.h"

namespace trainyard::comm {
namespace {

constexpr int kShown = 16;

// The last lines of a text that ends with a line break.
std::string_view last_lines(std::string_view text, int count) {
  std::size_t begin = text.size();
  for (int i = 0; i < count && begin > 0; ++i) {
    const std::size_t before = begin < 2 ? std::string_view::npos : text.rfind('\n', begin - 2);
    begin = before == std::string_view::npos ? 0 : before + 1;
  }
  return text.substr(begin);
}

void log_lines(std::string_view lines) {
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    log_warning(fmt::format("comm: flight record {}", lines.substr(0, end)));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

}  // namespace

void FlightDump::write(const std::optional<Error>& fault, const std::string& record) const {
  const std::string what =
      fault ? fmt::format("comm: '{}' ends on rank {}: {}", name, rank, fault->message)
            : fmt::format("comm: '{}' on rank {}, as SIGUSR2 asks", name, rank);
  if (folder.empty()) {
    log_warning(what);
    log_lines(last_lines(record, kShown));
    return;
  }
  const Path file = folder / fmt::format("flight-rank-{}.{}.jsonl", rank, as_file_name(name));
  nlohmann::json head = {{"rank", rank}, {"communicator", name}};
  if (!transports.empty()) {
    head["transports"] = transports;
  }
  if (fault) {
    head["fault"] = fault->message;
  }
  const Result<void> written = write_beside_status(file, dump_json(head) + "\n" + record);
  log_warning(written ? fmt::format("{}; its flight record is {}", what, file.string())
                      : fmt::format("{}; its flight record cannot be written: {}", what,
                                    written.error().message));
}

}  // namespace trainyard::comm
