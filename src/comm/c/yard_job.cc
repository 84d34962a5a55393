// SPDX-License-Identifier: Apache-2.0
#include "comm/c/yard_job.h"

#include <string>

#include "base/file.h"
#include "comm/c/handles.h"
#include "comm/rendezvous/resource_config.h"

namespace {

using namespace trainyard::comm;  // NOLINT(google-build-using-namespace): the C face of it

constexpr std::size_t kLargest = std::size_t{1} << 20;

Result<JobPlace> read_place(const char* config, std::int32_t local_rank, std::int32_t local_size) {
  YARD_TRY(const std::string text,
           trainyard::read_file(config == nullptr ? kResourceConfig : config, kLargest));
  return place_in_job(text, local_rank, local_size);
}

}  // namespace

int yard_job_place_read(const char* config, int32_t local_rank, int32_t local_size,
                        yard_job_place* place, char** error) {
  const auto found = read_place(config, local_rank, local_size);
  if (!found) {
    return report(found.error(), error);
  }
  *place = {.rank = found->rank,
            .size = found->size,
            .leader = copy_of(found->leader),
            .interface_ = copy_of(found->interface)};
  return YARD_OK;
}
