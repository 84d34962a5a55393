// SPDX-License-Identifier: Apache-2.0
#include "sandbox/loopback.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/fd.h"

namespace trainyard::sandbox {
namespace {

// Somebody's listener at one address of the machine.
Fd listen_at(const char* address, std::uint16_t port) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  inet_pton(AF_INET, address, &at.sin_addr);
  EXPECT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  EXPECT_EQ(listen(socket.get(), 1), 0);
  return socket;
}

// Tests that run beside each other share the machine's ports: only those that are about ports look
// at them, each from a block of its own on.
TEST(LoopbackBlocks, GiveNoBlockTwice) {
  LoopbackBlocks blocks([](const PortRange&) { return false; });
  const auto first = blocks.take(150);
  const auto second = blocks.take(150);
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, *second);
  blocks.give_back(*first);
  EXPECT_EQ(*blocks.take(150), *first);
}

TEST(LoopbackBlocks, PassOverWhereAnybodyListens) {
  LoopbackBlocks blocks;
  const auto free = blocks.take(140);
  ASSERT_TRUE(free);
  blocks.give_back(*free);
  const Fd somebody = listen_at("127.0.0.5", static_cast<std::uint16_t>(ports_of(*free).last - 3));
  EXPECT_NE(*blocks.take(140), *free);
}

TEST(LoopbackBlocks, ServersOfOneMachineAreKeptApartByTheListenerOnTheGateway) {
  LoopbackBlocks ours;
  LoopbackBlocks theirs;
  const auto taken = ours.take(170);
  ASSERT_TRUE(taken);
  const Fd gateway = listen_at(plan_loopback({.tag = "1a2b3c", .subnet = *taken})->gateway.c_str(),
                               ports_of(*taken).gateway());
  EXPECT_NE(*theirs.take(170), *taken);
}

TEST(LoopbackBlocks, SayWhenNoneIsLeft) {
  LoopbackBlocks blocks;
  for (int block = 0; block < kBlocks; ++block) {
    blocks.adopt(subnet_of_block(block));
  }
  const auto none = blocks.take(0);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kExhausted);
}

}  // namespace
}  // namespace trainyard::sandbox
