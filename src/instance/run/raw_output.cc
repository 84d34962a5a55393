// SPDX-License-Identifier: Apache-2.0
#include "instance/run/raw_output.h"

#include <fcntl.h>

#include "base/log.h"
#include "instance/launch/request.h"
#include "instance/run/own_file.h"

namespace trainyard::instance {
namespace {

constexpr const char* kVariable = "TRAINYARD_RAW_OUTPUT";

std::string name_of(const std::string& host, const Process& process, bool is_alone) {
  const std::string rank =
      is_alone || !process.rank ? std::string() : "-rank-" + std::to_string(*process.rank);
  return "output/data/raw-" + host + rank + ".log";
}

}  // namespace

bool wants_raw_output(const nlohmann::json& request) {
  const std::string value = text_at(member(request, "Environment"), kVariable);
  return value == "1" || value == "true";
}

Result<RawOutput> RawOutput::open(const Path& ml, const std::string& host,
                                  const std::vector<Process>& processes) {
  YARD_TRY(const Fd directory, open_ml(ml));
  RawOutput output;
  for (const Process& process : processes) {
    YARD_TRY(Fd file,
             open_own_file(directory, name_of(host, process, processes.size() == 1), O_APPEND));
    output.files_.push_back(std::move(file));
  }
  return output;
}

void RawOutput::write(int process, std::string_view bytes) {
  const auto index = static_cast<std::size_t>(process);
  if (index >= files_.size() || !files_[index].is_open()) {
    return;
  }
  if (const Result<void> written = write_all(files_[index].get(), bytes); !written) {
    log_error(written.error().in("keeping the raw output").message);
    files_[index].reset();
  }
}

}  // namespace trainyard::instance
