// SPDX-License-Identifier: Apache-2.0
// Ranks as processes, each with its own mapping of the segment that was passed to it: beside each
// other, and in sibling namespaces, where they see neither each other's pids nor users nor
// networks.
#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/subprocess.h"
#include "comm/transport/shm/shm_transport.h"

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kSegmentInChild = 3;
constexpr std::uint64_t kMessages = 200;

struct Process {
  Fault fault;
  HeapRegistry heaps;
  std::unique_ptr<ShmTransport> transport;

  Process(std::uint32_t index, Fd segment) {
    auto mapped = std::make_shared<const Segment>(*Segment::map(std::move(segment)));
    transport = *ShmTransport::create(mapped, {.index = index, .ranks = {0, 1}}, fault, heaps);
  }
};

std::size_t bytes_of(std::uint64_t n) {
  return n * 1237 % 100'000;
}

void send(Transport& from, std::int32_t peer, std::uint64_t n) {
  std::span<std::byte> place;
  while ((place = from.try_reserve({&peer, 1}, bytes_of(n))).data() == nullptr) {
    from.wait(Patience::kSleep, seconds(1));
  }
  std::memset(place.data(), static_cast<int>(n), place.size());
  from.publish({&peer, 1}, {.sequence = n, .signature = {}});
}

bool receives(Transport& to, std::int32_t peer, std::uint64_t n, milliseconds limit) {
  const Inbound* got = nullptr;
  const auto end = std::chrono::steady_clock::now() + limit;
  while ((got = to.try_receive(peer, {})) == nullptr && std::chrono::steady_clock::now() < end) {
    to.wait(n % 2 == 0 ? Patience::kSleep : Patience::kSpin, milliseconds(500));
  }
  if (got == nullptr || got->label.sequence != n || got->bytes.size() != bytes_of(n)) {
    return false;
  }
  const bool is_right = std::all_of(got->bytes.begin(), got->bytes.end(),
                                    [n](std::byte b) { return b == static_cast<std::byte>(n); });
  to.release(peer);
  return is_right;
}

// Run by the tests below in a process of its own, as rank 1: sends back what it gets.
TEST(ShmProcessChild, DISABLED_EchoesAsRankOne) {
  Process one(1, Fd(kSegmentInChild));
  for (std::uint64_t n = 1; n <= kMessages; ++n) {
    ASSERT_TRUE(receives(*one.transport, 0, n, seconds(30)));
    send(*one.transport, 0, n);
  }
}

SpawnOptions child_options(const Segment& segment, std::vector<std::string> before = {}) {
  std::vector<std::string> argv = std::move(before);
  argv.insert(argv.end(), {std::filesystem::read_symlink("/proc/self/exe").string(),
                           "--gtest_also_run_disabled_tests",
                           "--gtest_filter=ShmProcessChild.DISABLED_EchoesAsRankOne"});
  return {.argv = argv, .inherit_env = true, .fds = {{segment.fd(), kSegmentInChild}}};
}

void exchange_all(const Segment& segment, Child& child) {
  Process zero(0, Fd(dup(segment.fd())));
  for (std::uint64_t n = 1; n <= kMessages; ++n) {
    send(*zero.transport, 1, n);
    ASSERT_TRUE(receives(*zero.transport, 1, n, seconds(30))) << n;
  }
  const auto status = child.wait_for(seconds(20));
  ASSERT_TRUE(status.has_value() && status->has_value());
  EXPECT_TRUE((*status)->ok()) << to_string(**status);
}

TEST(ShmProcess, ExchangesMessagesWithAnotherProcess) {
  const Segment segment = *Segment::create(default_shape(2));
  Result<Child> child = spawn(child_options(segment));
  ASSERT_TRUE(child.has_value()) << child.error().message;
  exchange_all(segment, *child);
}

TEST(ShmProcess, ExchangesMessagesWithASiblingNamespace) {
  const std::vector<std::string> unshare = {"unshare", "--user", "--map-root-user", "--pid",
                                            "--net",   "--ipc",  "--fork"};
  std::vector<std::string> probe = unshare;
  probe.emplace_back("true");
  const Result<Output> allowed =
      run_command({.argv = probe, .inherit_env = true}, std::chrono::seconds(10));
  if (!allowed || !allowed->status.ok()) {
    GTEST_SKIP() << "namespaces cannot be made here";
  }
  const Segment segment = *Segment::create(default_shape(2));
  Result<Child> child = spawn(child_options(segment, unshare));
  ASSERT_TRUE(child.has_value()) << child.error().message;
  exchange_all(segment, *child);
}

TEST(ShmProcess, LeavesNothingInTheWayOfOthersWhenItIsKilled) {
  const Segment segment = *Segment::create(default_shape(2));
  Result<Child> child = spawn(child_options(segment));
  ASSERT_TRUE(child.has_value()) << child.error().message;
  Process zero(0, Fd(dup(segment.fd())));
  send(*zero.transport, 1, 1);
  ASSERT_TRUE(receives(*zero.transport, 1, 1, seconds(30)));
  ASSERT_TRUE(child->signal(SIGKILL));
  ASSERT_TRUE(child->wait().has_value());
  send(*zero.transport, 1, 2);
  EXPECT_FALSE(receives(*zero.transport, 1, 2, milliseconds(300)));
}

}  // namespace
}  // namespace trainyard::comm
