// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/peer_memory.h"

#include <algorithm>
#include <csignal>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trainyard::comm {
namespace {

// A process of its own that waits until this goes, and what it wrote about itself.
class Child {
 public:
  explicit Child(int namespaces = 0) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(pipe(ends), 0);
    middle_ = fork();
    if (middle_ == 0) {
      live(ends[1], namespaces);
    }
    close(ends[1]);
    has_card_ = read(ends[0], &card_, sizeof(card_)) == static_cast<ssize_t>(sizeof(card_));
    close(ends[0]);
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void end() {
    if (middle_ > 0) {
      kill(-middle_, SIGKILL);
      waitpid(middle_, nullptr, 0);
      middle_ = -1;
    }
  }
  bool has_card() const { return has_card_; }
  const MemoryCard& card() const { return card_; }

 private:
  [[noreturn]] static void live(int out, int namespaces) {
    setpgid(0, 0);
    // A new pid namespace is that of the children to come.
    if (namespaces != 0 && (unshare(namespaces) != 0 || fork() != 0)) {
      close(out);
      pause();
    }
    const OwnMemory memory;
    const MemoryCard card = memory.card();
    if (write(out, &card, sizeof(card)) != static_cast<ssize_t>(sizeof(card))) {
      _exit(1);
    }
    close(out);
    pause();
    _exit(0);
  }

  pid_t middle_ = -1;
  bool has_card_ = false;
  MemoryCard card_;
};

class Pages {
 public:
  explicit Pages(std::size_t count)
      : bytes_(count * static_cast<std::size_t>(getpagesize())),
        memory_(static_cast<std::byte*>(
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { munmap(memory_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::byte* begin() const { return memory_; }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(memory_); }
  void close_last() const {
    const auto page = static_cast<std::size_t>(getpagesize());
    ASSERT_EQ(mprotect(memory_ + bytes_ - page, page, PROT_NONE), 0);
  }

 private:
  std::size_t bytes_;
  std::byte* memory_;
};

class PeerMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!reaches(OwnMemory().card())) {
      GTEST_SKIP() << "the kernel lets no process read another one here";
    }
  }
};

TEST_F(PeerMemory, OfAnotherProcessIsRead) {
  const Child child;
  ASSERT_TRUE(child.has_card());

  EXPECT_TRUE(reaches(child.card()));

  std::array<std::uint64_t, 2> seen = {};
  const auto pid = static_cast<pid_t>(child.card().pid);
  ASSERT_TRUE(read_memory(pid, child.card().address, std::as_writable_bytes(std::span(seen))));
  EXPECT_EQ(seen, child.card().token);
}

TEST_F(PeerMemory, IsThatOfWhoeverShowedTheCard) {
  const OwnMemory memory;
  MemoryCard card = memory.card();
  EXPECT_TRUE(reaches(card));

  ++card.token[0];
  EXPECT_FALSE(reaches(card)) << "another process under that number";

  EXPECT_FALSE(reaches(MemoryCard{})) << "nothing is known of it";
}

TEST_F(PeerMemory, OfAnotherPidNamespaceIsNotTried) {
  const Child child(CLONE_NEWPID);
  if (!child.has_card()) {
    GTEST_SKIP() << "makes a pid namespace, which needs root";
  }
  EXPECT_FALSE(reaches(child.card()));

  // What would be read under that number here says that it is the right one.
  const OwnMemory memory;
  MemoryCard card = memory.card();
  card.pid_namespace = child.card().pid_namespace;
  EXPECT_FALSE(reaches(card));
}

TEST_F(PeerMemory, OfADeviceIsNotReadable) {
  const auto page = static_cast<std::size_t>(getpagesize());
  const Pages pages(2);
  EXPECT_TRUE(is_own_readable({pages.begin(), 2 * page}));
  EXPECT_TRUE(is_own_readable({}));

  pages.close_last();
  EXPECT_FALSE(is_own_readable({pages.begin(), 2 * page}));
  EXPECT_TRUE(is_own_readable({pages.begin(), page}));
}

TEST_F(PeerMemory, OfAnEndedProcessIsNotThere) {
  Child child;
  ASSERT_TRUE(child.has_card());
  child.end();

  EXPECT_FALSE(reaches(child.card()));
  std::byte byte = {};
  const auto done =
      read_memory(static_cast<pid_t>(child.card().pid), child.card().address, std::span(&byte, 1));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kUnavailable);
  EXPECT_NE(done.error().message.find("No such process"), std::string::npos)
      << done.error().message;
}

TEST_F(PeerMemory, ThatEndsTooSoonIsAnError) {
  const auto page = static_cast<std::size_t>(getpagesize());
  const Pages pages(3);
  std::fill_n(pages.begin(), 2 * page, std::byte{7});
  pages.close_last();
  std::vector<std::byte> into(3 * page);

  EXPECT_TRUE(read_memory(getpid(), pages.address(), std::span(into).first(2 * page)));
  EXPECT_EQ(into[2 * page - 1], std::byte{7});

  const auto done = read_memory(getpid(), pages.address(), into);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace trainyard::comm
