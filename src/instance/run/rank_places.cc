// SPDX-License-Identifier: Apache-2.0
#include "instance/run/rank_places.h"

#include <cerrno>
#include <string>
#include <system_error>

#include <sys/stat.h>

#include "base/log.h"
#include "base/text.h"
#include "instance/run/private_mounts.h"

namespace trainyard::instance {
namespace {

namespace fs = std::filesystem;

// A flight record is a few hundred KiB for each group and rank.
constexpr const char* kStatusBytes = "256m";

// Another instance may be doing the same.
void remove_older(const Path& folder, int epoch) {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const auto of = parse_int(entry.path().filename().string());
    if (!of || *of >= epoch) {
      continue;
    }
    const Result<void> removed = remove_tree(entry.path());
    std::error_code unknown;
    if (!removed && fs::exists(entry.path(), unknown)) {
      log_warning(removed.error().in("clearing away where ranks have met").message);
    }
  }
}

}  // namespace

Result<Path> make_meeting_place(const Path& folder, int epoch) {
  const Path place = folder / std::to_string(epoch);
  YARD_TRY(make_directories(folder, 0700));
  YARD_TRY(make_directories(place));
  // The job's own users may differ; nobody else gets as far as here.
  if (chmod(place.c_str(), 01777) != 0) {
    return errno_error("chmod " + place.string(), errno);
  }
  remove_older(folder, epoch);
  return place;
}

Result<Path> make_status_place(const Path& scratch) {
  const Path place = scratch / "status";
  YARD_TRY(make_directories(place));
  if (const Result<void> mounted = mount_memory(place, kStatusBytes); !mounted) {
    log_warning("ranks show their progress on the disk: " + mounted.error().message);
  }
  if (chmod(place.c_str(), 01777) != 0) {
    return errno_error("chmod " + place.string(), errno);
  }
  return place;
}

Result<void> make_rank_places(const Path& folder, int epoch, ContainerPlaces& places) {
  YARD_TRY(const Path status, make_status_place(places.scratch));
  places.status = status.string();
  if (!folder.empty()) {
    YARD_TRY(const Path meeting, make_meeting_place(folder, epoch));
    places.meeting = meeting.string();
  }
  return {};
}

Variables rank_place_variables(const ContainerPlaces& places) {
  Variables variables;
  if (!places.meeting.empty()) {
    variables["TRAINYARD_COMM_SOCKETS"] = kMeetingPlace;
  }
  if (!places.status.empty()) {
    variables["TRAINYARD_COMM_STATUS"] = kStatusPlace;
  }
  return variables;
}

}  // namespace trainyard::instance
