// SPDX-License-Identifier: Apache-2.0
#include "s3/adopt/trainyard_folder.h"

namespace trainyard::s3 {

std::string_view trainyard_folder(const HasEntry& has) {
  const auto file = [&](std::string_view name) { return has(name, EntryKind::kFile); };
  const auto folder = [&](std::string_view name) { return has(name, EntryKind::kFolder); };
  // One that has lost its database still holds its keys.
  if (file("trainyard.db") || (file("credentials") && folder("objects"))) {
    return "a Trainyard home";
  }
  // A data set may well have an index and a folder of data.
  if (file("index.db") && folder("data") && (folder("incoming") || file("credentials"))) {
    return "a Trainyard store";
  }
  return {};
}

}  // namespace trainyard::s3
