// SPDX-License-Identifier: Apache-2.0
// Gives a test a machine of its own to change: fresh network and mount namespaces for the calling
// thread and what it starts, with nothing but `lo` and an empty /run. Tests that make bridges,
// firewall tables and namespaces then disturb nobody and may compare before with after. Needs root;
// a test without it prints why it skips.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/file.h"
#include "base/subprocess.h"

namespace trainyard::testing {

// Empty when the thread now lives on its own machine, else why not.
inline std::string enter_private_host() {
  if (geteuid() != 0) {
    return "needs root to make network namespaces";
  }
  if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) {
    return std::string("unshare: ") + strerror(errno);
  }
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", "/run", "tmpfs", 0, "mode=0755") != 0) {
    return std::string("mount: ") + strerror(errno);
  }
  return {};
}

// What a command prints; fails the test when it does not succeed.
inline std::string output_of(const std::vector<std::string>& argv) {
  const Result<Output> output =
      run_command({.argv = argv, .env = {}, .inherit_env = true}, std::chrono::seconds(10));
  if (!output || !output->status.ok()) {
    ADD_FAILURE() << argv[0] << ": " << (output ? output->err : output.error().message);
    return {};
  }
  return output->out;
}

// All that a network of ours may change on a machine, as text to compare.
inline std::map<std::string, std::string> picture_of_host() {
  std::map<std::string, std::string> picture = {
      {"links", output_of({"ip", "-br", "link"})},
      {"routes", output_of({"ip", "route", "show", "table", "all"})},
      {"namespaces", output_of({"ip", "netns"})},
      {"firewall", output_of({"nft", "list", "ruleset"})}};
  for (const char* name : {"ip_forward", "tcp_allowed_congestion_control"}) {
    picture[name] = read_file(std::string("/proc/sys/net/ipv4/") + name).value_or("unreadable");
  }
  return picture;
}

}  // namespace trainyard::testing

// First line of a test body that changes the machine.
#define YARD_PRIVATE_HOST_OR_SKIP()                                                       \
  if (const std::string why = ::trainyard::testing::enter_private_host(); !why.empty()) { \
    GTEST_SKIP() << why;                                                                  \
  }                                                                                       \
  static_assert(true)
