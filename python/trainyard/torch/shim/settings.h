// SPDX-License-Identifier: Apache-2.0
// What trainyard.torch says of a new communicator, from Python's dictionary.
#pragma once

#include <string>

#include <pybind11/pybind11.h>

#include "store.h"

namespace trainyard::torch_shim {

inline std::string text_in(const pybind11::dict& settings, const char* key) {
  return settings.contains(key) ? settings[key].cast<std::string>() : std::string();
}

inline std::uint64_t number_in(const pybind11::dict& settings, const char* key) {
  return settings.contains(key) ? settings[key].cast<std::uint64_t>() : 0;
}

// The keyword arguments of make() and guard().
inline Settings settings_of(const pybind11::dict& all) {
  return {.name = text_in(all, "name"),
          .rank = all["rank"].cast<int>(),
          .size = all["size"].cast<int>(),
          .timeout = Milliseconds(all["timeout_ms"].cast<std::int64_t>()),
          .where = text_in(all, "where"),
          .interface = text_in(all, "interface"),
          .host = text_in(all, "host"),
          .sockets = text_in(all, "sockets"),
          .status = text_in(all, "status"),
          .transports = text_in(all, "transports"),
          .fabric_filter = text_in(all, "fabric_filter"),
          .fabric = text_in(all, "fabric"),
          .table = text_in(all, "table"),
          .mesh_scratch = number_in(all, "mesh_scratch"),
          .mesh_sort = number_in(all, "mesh_sort"),
          .sweep = Milliseconds(number_in(all, "sweep_ms"))};
}

}  // namespace trainyard::torch_shim
