// SPDX-License-Identifier: Apache-2.0
// A c10d::Store as the library's rendezvous store, and a communicator made with it.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base.h"

namespace trainyard::torch_shim {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

inline char* copy_of(const std::string& text) {
  return strdup(text.c_str());
}

inline void* copy_of(const std::vector<std::uint8_t>& bytes) {
  void* copy = std::malloc(bytes.size() + 1);
  if (copy != nullptr) {
    std::memcpy(copy, bytes.data(), bytes.size());
  }
  return copy;
}

// The functions of yard_store; the context is a c10d::Store. They turn its exceptions into codes.
template <typename Body>
int guarded(char** error, int otherwise, const Body& body) {
  try {
    body();
    return YARD_OK;
  } catch (const std::exception& thrown) {
    *error = copy_of("the store of the process group: " + std::string(thrown.what()));
    return otherwise;
  }
}

inline c10d::Store& store_of(void* context) {
  return *static_cast<c10d::Store*>(context);
}

inline int store_claim(void* context, const char* key, const void* value, std::size_t size,
                       void** held, std::size_t* held_size, char** error) {
  return guarded(error, YARD_UNAVAILABLE, [&] {
    const auto* bytes = static_cast<const std::uint8_t*>(value);
    const auto now = store_of(context).compareSet(key, std::vector<std::uint8_t>(),
                                                  std::vector<std::uint8_t>(bytes, bytes + size));
    *held = copy_of(now);
    *held_size = now.size();
  });
}

inline int store_wait_for(void* context, const char* const* keys, std::size_t count,
                          std::int64_t milliseconds, void** values, std::size_t* sizes,
                          char** error) {
  return guarded(error, YARD_DEADLINE, [&] {
    const std::vector<std::string> names(keys, keys + count);
    c10d::Store& store = store_of(context);
    store.wait(names, Milliseconds(milliseconds));
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = store.get(names[i]);
      values[i] = copy_of(value);
      sizes[i] = value.size();
    }
  });
}

inline int store_has(void* context, const char* key, int* is_there, char** error) {
  return guarded(error, YARD_UNAVAILABLE,
                 [&] { *is_there = store_of(context).check({key}) ? 1 : 0; });
}

// What Python gives; texts may be empty.
struct Settings {
  std::string name;
  int rank = 0;
  int size = 1;
  Milliseconds timeout{};
  std::string where;  // the store
  std::string interface;
  std::string host;
  std::string sockets;
  std::string status;
  std::string transports;
  std::string fabric_filter;
  std::string fabric;
  std::string table;
  std::uint64_t mesh_scratch = 0;
  std::uint64_t mesh_sort = 0;
  Milliseconds sweep{};
};

inline CommunicatorPtr join(const StorePtr& store, const Settings& settings) {
  const yard_comm_options options{.name = settings.name.c_str(),
                                  .rank = settings.rank,
                                  .size = settings.size,
                                  .timeout_ms = settings.timeout.count(),
                                  .join_timeout_ms = settings.timeout.count(),
                                  .interface_ = settings.interface.c_str(),
                                  .host = settings.host.c_str(),
                                  .sockets = settings.sockets.c_str(),
                                  .status = settings.status.c_str(),
                                  .transports = settings.transports.c_str(),
                                  .fabric_filter = settings.fabric_filter.c_str(),
                                  .fabric = settings.fabric.c_str(),
                                  .table = settings.table.c_str(),
                                  .mesh_scratch = settings.mesh_scratch,
                                  .mesh_sort = settings.mesh_sort,
                                  .sweep_ms = settings.sweep.count()};
  const yard_store face{.context = store.get(),
                        .claim = store_claim,
                        .wait_for = store_wait_for,
                        .has = store_has,
                        .where = settings.where.c_str()};
  yard_comm* comm = nullptr;
  char* error = nullptr;
  const int code = yard_comm_create(&options, &face, &comm, &error);
  check(code, error);
  return std::make_shared<Communicator>(comm);
}

}  // namespace trainyard::torch_shim
