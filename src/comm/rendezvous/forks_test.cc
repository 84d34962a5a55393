// SPDX-License-Identifier: Apache-2.0
// A data loader's worker in small: a child that goes on without exec.
#include "comm/rendezvous/forks.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "comm/health/status_file.h"
#include "comm/rendezvous/control_link.h"
#include "comm/transport/tcp/acceptor.h"
#include "testing/comm_world.h"

namespace trainyard::comm {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

// A child that runs `body`, which gives its exit code, and ends there.
class Child {
 public:
  explicit Child(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ == 0) {
      std::_Exit(body());
    }
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int exit_code() {
    int status = -1;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
};

struct Pair {
  Fd one;
  Fd other;
};

Pair make_pair() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

bool is_null_device(int fd) {
  struct stat status {};
  struct stat null {};
  return ::fstat(fd, &status) == 0 && ::stat("/dev/null", &null) == 0 &&
         status.st_rdev == null.st_rdev;
}

TEST(ControlLink, EndsWithItsProcessThoughAChildLives) {
  Pair pair = make_pair();
  ControlLink watcher(std::move(pair.other));
  auto rank = std::make_unique<ControlLink>(std::move(pair.one));
  const Child child([] { return ::pause(); });
  rank.reset();
  EXPECT_EQ(watcher.wait(seconds(20)).error().code, Code::kUnavailable);
}

TEST(ControlLink, SaysWhenThisProcessHasNoDescriptorForOneThatComes) {
  Pair pair = make_pair();
  ControlLink rank(std::move(pair.one));
  ControlLink leader(std::move(pair.other));
  rank.send({"heap+fd"}, STDERR_FILENO);
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = usual.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::vector<ControlMessage> messages;
  const auto received = leader.receive(messages);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, Code::kExhausted);
  EXPECT_NE(received.error().message.find("ulimit -n"), std::string::npos);
}

TEST(PrivateFd, EndsWithItsOwnerThoughAChildLives) {
  Pair pair = make_pair();
  Pair other = make_pair();
  ControlLink watcher(std::move(pair.other));
  PrivateFd rank(std::move(other.one));
  rank = ControlLink(std::move(pair.one)).take_fd();  // in place of another one
  const Child child([] { return ::pause(); });
  rank = PrivateFd();
  EXPECT_EQ(watcher.wait(seconds(20)).error().code, Code::kUnavailable);
}

// From where it is opened, and where it is accepted, to those who keep it.
TEST(DataConnection, EndsWithItsRankThoughAChildLives) {
  Acceptor acceptor(*listen_tcp({"127.0.0.1", 0}), "secret", 1);
  const Greeting greeting{.secret = "secret", .from = 0, .to = 1};
  auto sends = open_data_connection({"127.0.0.1"}, acceptor.port(), greeting, std::stop_token());
  ASSERT_TRUE(sends);
  std::vector<Arrival> arrived;
  const auto end = steady_clock::now() + seconds(20);
  while (arrived.empty() && steady_clock::now() < end) {
    arrived = acceptor.take(0);
  }
  ASSERT_EQ(arrived.size(), 1U);
  Child child([ends = std::array{sends->get(), arrived[0].fd.get()}] {
    return is_null_device(ends[0]) && is_null_device(ends[1]) ? 0 : 1;
  });
  EXPECT_EQ(child.exit_code(), 0);
}

TEST(KeptFromChildren, LeavesANumberInTheChildAndTheConnectionToTheParent) {
  Pair pair = make_pair();
  const KeptFromChildren kept(pair.one.get());
  const int number = pair.one.get();
  const int other = pair.other.get();
  Child child([&] { return is_null_device(number) && !is_null_device(other) ? 0 : 1; });
  EXPECT_EQ(child.exit_code(), 0);
  EXPECT_EQ(::write(number, "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(other, &byte, 1), 1);
}

TEST(KeptFromChildren, ForgetsWhatIsClosed) {
  Pair pair = make_pair();
  { const KeptFromChildren kept(pair.one.get()); }
  const int number = pair.one.get();
  Child child([&] { return is_null_device(number) ? 1 : 0; });
  EXPECT_EQ(child.exit_code(), 0);
}

// A rank that dies shows nothing any more, though its child still maps what it showed.
TEST(StatusFile, IsNotKeptByAChild) {
  const Result<TempDir> folder = TempDir::make();
  const Path path = folder->path() / "rank-0.world";
  const Pipe pipe = *make_pipe();
  Child rank([&] {
    const auto file = StatusFile::make(path, 4096);
    ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file->fd(), 0);
    if (::fork() == 0) {
      const pid_t worker = ::getpid();  // told by itself: what it must not keep is gone by then
      static_cast<void>(::write(pipe.write_end.get(), &worker, sizeof(worker)));
      return ::pause();
    }
    std::_Exit(0);  // as a rank that dies: nothing is put away
  });
  EXPECT_EQ(rank.exit_code(), 0);
  pid_t worker = -1;
  ASSERT_EQ(::read(pipe.read_end.get(), &worker, sizeof(worker)), ssize_t{sizeof(worker)});
  EXPECT_TRUE(std::filesystem::exists(path));
  static_cast<void>(StatusFile::make(folder->path() / "rank-1.world", 1));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(::kill(worker, SIGKILL), 0);
}

TEST(Communicator, IsNoneInAChild) {
  testing::LocalWorld world = testing::make_local_communicators(2);
  Child child([&] {
    const auto done = world[0].run(Operation());
    const bool is_refused = !done && done.error().code == Code::kInvalidArgument &&
                            done.error().message.find("'world'") != std::string::npos;
    world.ranks.clear();  // waits for no thread of the parent's
    return is_refused ? 0 : 1;
  });
  EXPECT_EQ(child.exit_code(), 0);
  testing::on_all_ranks(
      world, [](Communicator& communicator) { EXPECT_TRUE(communicator.run(Operation())); });
}

}  // namespace
}  // namespace trainyard::comm
