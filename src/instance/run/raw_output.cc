// SPDX-License-Identifier: Apache-2.0
#include "instance/run/raw_output.h"

#include <cerrno>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "instance/launch/request.h"

namespace trainyard::instance {
namespace {

constexpr const char* kVariable = "TRAINYARD_RAW_OUTPUT";

std::string name_of(const std::string& host, const Process& process, bool is_alone) {
  const std::string rank =
      is_alone || !process.rank ? std::string() : "-rank-" + std::to_string(*process.rank);
  return "output/data/raw-" + host + rank + ".log";
}

// glibc has no function for it.
Result<Fd> open_below(int directory, const std::string& path) {
  open_how how{};
  how.flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;
  how.mode = 0644;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  Fd file(static_cast<int>(::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how)));
  if (!file.is_open()) {
    return errno_error("cannot open /opt/ml/" + path, errno);
  }
  return file;
}

}  // namespace

bool wants_raw_output(const nlohmann::json& request) {
  const std::string value = text_at(member(request, "Environment"), kVariable);
  return value == "1" || value == "true";
}

Result<RawOutput> RawOutput::open(const Path& ml, const std::string& host,
                                  const std::vector<Process>& processes) {
  YARD_TRY(const Fd directory, open_file(ml, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  RawOutput output;
  for (const Process& process : processes) {
    YARD_TRY(Fd file, open_below(directory.get(), name_of(host, process, processes.size() == 1)));
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
