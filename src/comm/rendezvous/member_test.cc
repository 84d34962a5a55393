// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/member.h"

#include <functional>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

namespace trainyard::comm {
namespace {

std::string key_of(const std::string& folder) {
  const auto machine = read_this_machine(folder);
  EXPECT_TRUE(machine) << machine.error().message;
  return machine ? machine->host_key : "";
}

// Whether `check` holds in a process in which `from` is mounted over `over`.
bool holds_with_mount(const Path& from, const Path& over, const std::function<bool()>& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_mounted = ::unshare(CLONE_NEWNS) == 0 &&
                            ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                            ::mount(from.c_str(), over.c_str(), nullptr, MS_BIND, nullptr) == 0;
    ::_exit(is_mounted && check() ? 0 : 1);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Member, IsReadAsItWasWritten) {
  const Member member{.rank = 3,
                      .size = 4,
                      .host_key = "key",
                      .host_name = "algo-2",
                      .network = "network",
                      .pid = 812,
                      .local_socket = "@socket",
                      .nonce = "nonce",
                      .addresses = {"10.0.0.5", "fd00::5"}};
  EXPECT_EQ(*decode_member(encode(member)), member);
}

TEST(Machine, HasTheNetworkOfItsNamespaceWhateverFolderIsShared) {
  const TempDir folder = *TempDir::make();
  EXPECT_EQ(read_this_machine(folder.path())->network, read_this_machine("")->network);
  EXPECT_EQ(read_this_machine("")->network, key_of(""));
}

TEST(Machine, IsTheSameForThoseWhoShareAFolder) {
  const TempDir folder = *TempDir::make();
  const TempDir other = *TempDir::make();
  EXPECT_EQ(key_of(folder.path()), key_of(folder.path()));
  EXPECT_NE(key_of(folder.path()), key_of(other.path()));
  EXPECT_NE(key_of(folder.path()), key_of(""));
}

TEST(Machine, IsTheSameWhereTheFolderIsMountedElsewhere) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  const TempDir folder = *TempDir::make();
  const TempDir place = *TempDir::make();
  const std::string key = key_of(folder.path());
  EXPECT_TRUE(
      holds_with_mount(folder.path(), place.path(), [&] { return key_of(place.path()) == key; }));
}

// As two machines are that mount a folder of a file server.
TEST(Machine, IsAnotherOneAfterAnotherBootWhateverFolderIsShared) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  const TempDir folder = *TempDir::make();
  const TempDir machine = *TempDir::make();
  const Path boot = machine.path() / "boot_id";
  ASSERT_TRUE(write_file(boot, "5d1a5e6e-0000-4000-8000-000000000001\n"));
  const std::string key = key_of(folder.path());
  EXPECT_TRUE(holds_with_mount(boot, "/proc/sys/kernel/random/boot_id",
                               [&] { return key_of(folder.path()) != key; }));
}

}  // namespace
}  // namespace trainyard::comm
