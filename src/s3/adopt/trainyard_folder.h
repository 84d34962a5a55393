// SPDX-License-Identifier: Apache-2.0
// What tells a folder of Trainyard's own from one of data: an import takes neither the keys nor the
// databases of any home or store on its way, be it running or not, its own or another's.
#pragma once

#include <functional>
#include <string_view>

namespace trainyard::s3 {

enum class EntryKind { kFile, kFolder };

// Whether the folder has an entry of that name and kind. A symbolic link is of either kind: the
// parts of a home may well lie on another disk.
using HasEntry = std::function<bool(std::string_view name, EntryKind kind)>;

// "a Trainyard home" (also a backup of one), "a Trainyard store", or empty for any other folder.
std::string_view trainyard_folder(const HasEntry& has);

}  // namespace trainyard::s3
