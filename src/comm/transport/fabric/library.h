// SPDX-License-Identifier: Apache-2.0
// libfabric, loaded when somebody asks for it and not before: who does not use it neither needs it
// nor waits for it. Of its interface only these functions are symbols; all else is reached through
// the objects that they give. It stays loaded, because what it registers with a process it does
// not take back.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

// NOLINTBEGIN(readability-identifier-naming): libfabric's names
struct fi_info;
struct fi_fabric_attr;
struct fid_fabric;
// NOLINTEND(readability-identifier-naming)

namespace trainyard::comm {

class FabricLibrary {
 public:
  // kNotFound, with the package to install, where there is none.
  static Result<FabricLibrary> load();

  // fi_getinfo(3). What comes back is freed with free_info().
  Result<fi_info*> find(const fi_info& hints) const;
  fi_info* copy(const fi_info* info) const { return copy_info_(info); }  // of null: a blank one
  void free_info(fi_info* info) const { free_info_(info); }
  int open(fi_fabric_attr* attributes, fid_fabric** fabric) const {
    return open_fabric_(attributes, fabric, nullptr);
  }
  std::string text_of(long code) const;  // of a negative return value
  std::string version() const;           // "1.17"

 private:
  FabricLibrary() = default;

  int (*get_info_)(std::uint32_t, const char*, const char*, std::uint64_t, const fi_info*,
                   fi_info**) = nullptr;
  void (*free_info_)(fi_info*) = nullptr;
  fi_info* (*copy_info_)(const fi_info*) = nullptr;
  int (*open_fabric_)(fi_fabric_attr*, fid_fabric**, void*) = nullptr;
  const char* (*strerror_)(int) = nullptr;
  std::uint32_t (*version_)() = nullptr;
};

}  // namespace trainyard::comm
