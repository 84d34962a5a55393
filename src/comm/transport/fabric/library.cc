// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/fabric/library.h"

#include <array>

#include <dlfcn.h>
#include <fmt/format.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "comm/transport/fabric/signal_keeper.h"

namespace trainyard::comm {
namespace {

// The oldest that has all that is used here.
constexpr std::uint32_t kInterface = FI_VERSION(1, 14);
// Debian's, and where the installer of EFA puts its own.
constexpr std::array<const char*, 3> kPlaces = {
    "libfabric.so.1", "/opt/amazon/efa/lib/libfabric.so.1", "/opt/amazon/efa/lib64/libfabric.so.1"};

template <typename Function>
bool take(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(::dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

Result<FabricLibrary> FabricLibrary::load() {
  const SignalKeeper signals;
  void* library = nullptr;
  std::string tried;
  for (const char* place : kPlaces) {
    library = ::dlopen(place, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library != nullptr) {
      break;
    }
    tried += (tried.empty() ? "" : "; ") + std::string(::dlerror());
  }
  if (library == nullptr) {
    return Error{Code::kNotFound,
                 fmt::format("libfabric is asked for and not installed: on Debian, apt-get install "
                             "libfabric1; for EFA, Amazon's efa_installer ({})",
                             tried)};
  }
  FabricLibrary loaded;
  const bool has_all = take(library, "fi_getinfo", &loaded.get_info_) &&
                       take(library, "fi_freeinfo", &loaded.free_info_) &&
                       take(library, "fi_dupinfo", &loaded.copy_info_) &&
                       take(library, "fi_fabric", &loaded.open_fabric_) &&
                       take(library, "fi_strerror", &loaded.strerror_) &&
                       take(library, "fi_version", &loaded.version_);
  if (!has_all || FI_VERSION_LT(loaded.version_(), kInterface)) {
    return Error{Code::kUnimplemented,
                 fmt::format("the libfabric that is installed is older than {}.{}",
                             FI_MAJOR(kInterface), FI_MINOR(kInterface))};
  }
  return loaded;
}

Result<fi_info*> FabricLibrary::find(const fi_info& hints) const {
  const SignalKeeper signals;
  fi_info* found = nullptr;
  const int code = get_info_(kInterface, nullptr, nullptr, 0, &hints, &found);
  if (code == 0 && found != nullptr) {
    return found;
  }
  return Error{code == -FI_ENODATA ? Code::kNotFound : Code::kUnavailable, text_of(code)};
}

std::string FabricLibrary::text_of(long code) const {
  return strerror_(static_cast<int>(code < 0 ? -code : code));
}

std::string FabricLibrary::version() const {
  return fmt::format("{}.{}", FI_MAJOR(version_()), FI_MINOR(version_()));
}

}  // namespace trainyard::comm
