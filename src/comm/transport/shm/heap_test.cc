// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/heap.h"

#include <algorithm>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace trainyard::comm {
namespace {

using testing::Each;

TEST(HeapRegistry, MakesZeroedMemoryInWholePages) {
  HeapRegistry heaps;
  const HeapRegistry::Made made = *heaps.make(5000);
  EXPECT_EQ(made.memory->bytes().size(), 8192U);
  EXPECT_THAT(made.memory->bytes(), Each(std::byte{0}));
  EXPECT_EQ(heaps.make(0).error().code, Code::kInvalidArgument);
}

TEST(HeapRegistry, LeavesHalfOfTheDescriptorsToOthers) {
  constexpr int kAll = 64;
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit few{.rlim_cur = kAll, .rlim_max = usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  HeapRegistry heaps;
  auto made = heaps.make(4096);
  for (int i = 0; i < kAll && made; ++i) {
    made = heaps.make(4096);
  }
  const Fd lowest(dup(STDERR_FILENO));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kExhausted);
  EXPECT_EQ(lowest.get(), kAll / 2);
}

TEST(HeapRegistry, FindsTheWindowOfBytesInsideOneHeapOnly) {
  HeapRegistry heaps;
  const HeapRegistry::Made one = *heaps.make(4096);
  const HeapRegistry::Made two = *heaps.make(8192);
  const std::span<std::byte> bytes = two.memory->bytes();
  const Window window = heaps.window_of(bytes.subspan(100, 50));
  EXPECT_EQ(window.heap, two.heap);
  EXPECT_EQ(window.offset, 100U);
  EXPECT_NE(one.heap, two.heap);
  EXPECT_EQ(heaps.window_of({bytes.data() + 8000, 193}).heap, 0U);
  EXPECT_EQ(heaps.window_of({bytes.data() - 1, 2}).heap, 0U);
  const std::vector<std::byte> elsewhere(64);
  EXPECT_EQ(heaps.window_of(elsewhere).heap, 0U);
}

TEST(HeapRegistry, ForgetsAHeapAndLeavesItsMemoryToItsHolder) {
  HeapRegistry heaps;
  const HeapRegistry::Made made = *heaps.make(4096);
  heaps.forget(made.heap);
  EXPECT_EQ(heaps.window_of(made.memory->bytes()).heap, 0U);
  made.memory->bytes()[4095] = std::byte{1};
}

TEST(HeapRegistry, LeavesItsHeapsToThePeersWhenItWithdraws) {
  HeapRegistry owner;
  HeapRegistry user;
  const HeapRegistry::Made made = *owner.make(8192);
  const std::span<std::byte> own = made.memory->bytes();
  ASSERT_TRUE(user.add_peers(0, made.heap, Fd(dup(made.fd))));
  const auto seen = user.map(0, {.heap = made.heap, .offset = 0}, own.size());
  const std::span<std::byte> theirs(seen.get(), own.size());
  std::ranges::fill(own, std::byte{1});

  ASSERT_TRUE(owner.withdraw());

  EXPECT_THAT(own, Each(std::byte{1}));
  EXPECT_EQ(owner.window_of(own).heap, 0U);
  std::ranges::fill(own.first(4096), std::byte{7});
  EXPECT_THAT(theirs, Each(std::byte{1}));
  std::ranges::fill(theirs, std::byte{9});
  EXPECT_THAT(own.first(4096), Each(std::byte{7}));
}

TEST(HeapRegistry, FindsNoHeapOnceItHasWithdrawn) {
  HeapRegistry heaps;
  ASSERT_TRUE(heaps.withdraw());
  const HeapRegistry::Made made = *heaps.make(4096);
  EXPECT_EQ(heaps.window_of(made.memory->bytes()).heap, 0U);
  EXPECT_TRUE(heaps.withdraw());
}

TEST(SharedMemory, StaysSharedWhenItCannotBecomePrivate) {
  SharedMemory memory = *SharedMemory::create("trainyard-test", 4096);
  memory.close_fd();
  memory.bytes()[0] = std::byte{3};
  EXPECT_FALSE(memory.make_private());
  EXPECT_EQ(memory.bytes()[0], std::byte{3});
}

TEST(HeapRegistry, MapsTheHeapOfAPeerInsideItsBounds) {
  HeapRegistry owner;
  HeapRegistry user;
  const HeapRegistry::Made made = *owner.make(8192);
  EXPECT_EQ(user.map(3, {.heap = made.heap, .offset = 0}, 1), nullptr);
  ASSERT_TRUE(user.add_peers(3, made.heap, Fd(dup(made.fd))));
  const std::shared_ptr<std::byte> seen = user.map(3, {.heap = made.heap, .offset = 4000}, 4192);
  ASSERT_NE(seen, nullptr);
  *seen = std::byte{9};
  EXPECT_EQ(made.memory->bytes()[4000], std::byte{9});
  EXPECT_EQ(user.map(3, {.heap = made.heap, .offset = 4000}, 4193), nullptr);
  EXPECT_EQ(user.map(3, {.heap = made.heap, .offset = ~std::uint64_t{0}}, 2), nullptr);
  EXPECT_EQ(user.map(2, {.heap = made.heap, .offset = 0}, 1), nullptr);
}

TEST(HeapRegistry, RefusesAPeersHeapThatCannotBeMapped) {
  HeapRegistry user;
  EXPECT_EQ(user.add_peers(0, 1, Fd()).error().code, Code::kInvalidArgument);
  EXPECT_EQ(user.map(0, {.heap = 1, .offset = 0}, 1), nullptr);
}

TEST(HeapRegistry, HoldsNoDescriptorOfAPeersHeap) {
  HeapRegistry owner;
  HeapRegistry user;
  const HeapRegistry::Made made = *owner.make(4096);
  const int fd = dup(made.fd);
  ASSERT_TRUE(user.add_peers(0, made.heap, Fd(fd)));
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

bool is_mapped(const std::byte* address) {
  unsigned char is_present = 0;
  return mincore(const_cast<std::byte*>(address), 1, &is_present) == 0;
}

TEST(HeapRegistry, UnmapsWhatThePeerNoLongerUsesOnceNobodyHoldsIt) {
  HeapRegistry owner;
  HeapRegistry user;
  const HeapRegistry::Made made = *owner.make(4096);
  ASSERT_TRUE(user.add_peers(0, made.heap, Fd(dup(made.fd))));
  std::shared_ptr<std::byte> seen = user.map(0, {.heap = made.heap, .offset = 0}, 1);
  ASSERT_NE(seen, nullptr);
  user.forget_peers(0, made.heap);
  EXPECT_EQ(user.map(0, {.heap = made.heap, .offset = 0}, 1), nullptr);
  const std::byte* const address = seen.get();
  EXPECT_TRUE(is_mapped(address));
  seen.reset();
  EXPECT_FALSE(is_mapped(address));
}

}  // namespace
}  // namespace trainyard::comm
