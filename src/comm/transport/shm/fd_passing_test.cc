// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/fd_passing.h"

#include <array>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "comm/transport/shm/shared_memory.h"

namespace trainyard::comm {
namespace {

struct Sockets {
  Fd one;
  Fd other;
};

Sockets connected(int type) {
  std::array<int, 2> fds = {};
  EXPECT_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds.data()), 0);
  return {Fd(fds[0]), Fd(fds[1])};
}

class FdPassing : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Types, FdPassing, testing::Values(SOCK_STREAM, SOCK_SEQPACKET));

TEST_P(FdPassing, CarriesMemoryAndText) {
  const Sockets sockets = connected(GetParam());
  const SharedMemory memory = *SharedMemory::create("memory", 4096);
  ASSERT_TRUE(send_fd(sockets.one.get(), "heap 7", memory.fd()));
  PassedFds passed = *receive_fds(sockets.other.get());
  EXPECT_EQ(passed.text, "heap 7");
  ASSERT_EQ(passed.fds.size(), 1U);
  EXPECT_NE(fcntl(passed.fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  memory.bytes()[1] = std::byte{5};
  EXPECT_EQ(SharedMemory::map(std::move(passed.fds[0]))->bytes()[1], std::byte{5});
}

TEST_P(FdPassing, CarriesAsManyAsItSaysAndNoMore) {
  const Sockets sockets = connected(GetParam());
  const std::vector<int> most(kMaxPassedFds, sockets.one.get());
  ASSERT_TRUE(send_fds(sockets.one.get(), "x", most));
  EXPECT_EQ(receive_fds(sockets.other.get())->fds.size(), kMaxPassedFds);
  const std::vector<int> more(kMaxPassedFds + 1, sockets.one.get());
  EXPECT_EQ(send_fds(sockets.one.get(), "x", more).error().code, Code::kInvalidArgument);
  EXPECT_EQ(send_fds(sockets.one.get(), "", most).error().code, Code::kInvalidArgument);
}

TEST_P(FdPassing, KeepsMessagesApartWhenTheirLengthIsKnown) {
  const Sockets sockets = connected(GetParam());
  ASSERT_TRUE(send_fd(sockets.one.get(), "one", sockets.one.get()));
  ASSERT_TRUE(send_fds(sockets.one.get(), "two", {}));
  EXPECT_EQ(receive_fds(sockets.other.get(), 3)->fds.size(), 1U);
  const PassedFds second = *receive_fds(sockets.other.get(), 3);
  EXPECT_EQ(second.text, "two");
  EXPECT_TRUE(second.fds.empty());
}

TEST_P(FdPassing, SaysWhenThePeerIsGoneOrHasNothing) {
  Sockets sockets = connected(GetParam() | SOCK_NONBLOCK);
  EXPECT_EQ(receive_fds(sockets.other.get()).error().code, Code::kDeadline);
  sockets.one.reset();
  EXPECT_EQ(receive_fds(sockets.other.get()).error().code, Code::kUnavailable);
  EXPECT_EQ(send_fd(sockets.other.get(), "x", sockets.other.get()).error().code,
            Code::kUnavailable);
}

}  // namespace
}  // namespace trainyard::comm
