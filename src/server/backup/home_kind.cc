// SPDX-License-Identifier: Apache-2.0
#include "server/backup/home_kind.h"

namespace trainyard::server {

Result<HomeKind> kind_of(const PlainFiles& home) {
  const auto database = home.size_of("trainyard.db");
  if (database) {
    return HomeKind{};
  }
  if (database.error().code != Code::kNotFound) {
    return database.error();
  }
  std::error_code ignored;
  const bool had_jobs =
      std::filesystem::exists(std::filesystem::symlink_status(home.root() / "logs", ignored));
  if (!had_jobs && home.size_of("objects/index.db")) {
    return HomeKind{.has_jobs = false};
  }
  if (!had_jobs && home.size_of("index.db")) {
    return HomeKind{.has_jobs = false, .objects = ""};
  }
  return Error{Code::kNotFound, home.root().string() +
                                    " is neither the home of a server or a store nor a backup: it "
                                    "has no trainyard.db"};
}

}  // namespace trainyard::server
