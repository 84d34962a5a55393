// SPDX-License-Identifier: Apache-2.0
// What was found on a machine, as a value: gather.h fills it in, diagnose.h judges it. What could
// not be read is empty, or says why.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/rendezvous/interfaces.h"

namespace trainyard::doctor {

inline constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

struct Limit {
  std::uint64_t soft = 0;  // kUnlimited: none
  std::uint64_t hard = 0;
};

struct FabricFacts {
  std::string version;                    // of libfabric; empty: none can be loaded
  std::string error;                      // then, why
  std::vector<std::string> providers;     // that find something to use here
  std::vector<std::string> efa_devices;   // "rdmap0s6"
  std::vector<std::string> nccl_plugins;  // files of aws-ofi-nccl
};

struct GpuFacts {
  std::vector<std::string> devices;         // "/dev/nvidia0"
  std::vector<std::string> kernel_modules;  // loaded ones that have to do with GPUs and RDMA
  bool has_gdrdrv = false;                  // /dev/gdrdrv, GDRCopy's
};

struct NetworkFacts {
  std::vector<comm::Interface> interfaces;
  std::map<std::string, std::int64_t> speeds;  // by interface, Mbit/s, where the driver says it
  std::string choice;                          // TRAINYARD_COMM_INTERFACE
};

struct MemoryFacts {
  Limit locked;
  Limit open_files;
  std::optional<std::uint64_t> shm_bytes;  // of /dev/shm; empty: there is none
  std::uint64_t huge_pages = 0;            // reserved
  std::string transparent_huge_pages;      // "madvise"; empty: the kernel has none
};

struct SandboxFacts {
  bool is_root = false;
  bool may_make_networks = false;          // CAP_NET_ADMIN and CAP_SYS_ADMIN
  std::vector<std::string> missing_tools;  // of bwrap, ip, nft: what an instance is made with
  std::string user_namespaces;  // empty: an ordinary user can; otherwise what is in the way
  bool has_cgroups = false;     // of memory
};

struct ClockFacts {
  bool is_known = false;
  bool is_synchronized = false;
  std::chrono::microseconds most_error{0};  // as the kernel estimates it
};

struct HomeFacts {
  std::string path;
  std::string error;  // it cannot be written to
  std::string file_system;
  std::uint64_t free_bytes = 0;
  std::chrono::microseconds sync{0};  // median of an append of 4 KiB made durable
};

struct Facts {
  std::string instance_type;  // that the machine stands for; empty: not said
  std::map<std::string, std::string> environment;
  FabricFacts fabric;
  GpuFacts gpu;
  NetworkFacts network;
  MemoryFacts memory;
  SandboxFacts sandbox;
  ClockFacts clock;
  HomeFacts home;
};

}  // namespace trainyard::doctor
