// SPDX-License-Identifier: Apache-2.0
// Shares of workers and of the queue, on their own threads and through the server.
#include "http/internal/workers.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <latch>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "http/test_peer.h"
#include "testing/no_threads.h"

namespace trainyard::http {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

std::string get(std::string_view path) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: h\r\n\r\n";
}

// The beginning of an upload.
std::string put(std::string_view path) {
  return "PUT " + std::string(path) + " HTTP/1.1\r\nHost: h\r\nContent-Length: 900000\r\n\r\n" +
         std::string(10'000, 'x');
}

// Client "a" of "/a/...".
std::string by_path(const Request& request) {
  return request.path.substr(0, 2);
}

// Blocks those who ask for /a/... until it is opened; answers the others with their path.
class Gate {
 public:
  Handler handler() {
    return [this](std::unique_ptr<Exchange> exchange) {
      ++entered;
      if (exchange->request().path.starts_with("/a")) {
        open_.wait();
      }
      exchange->respond({.body = exchange->request().path});
    };
  }
  void wait() { open_.wait(); }
  void open() {
    if (!std::exchange(is_open_, true)) {
      open_.count_down();
    }
  }
  std::atomic<int> entered = 0;

 private:
  std::latch open_{1};
  bool is_open_ = false;
};

// Before the server goes, which waits for its workers.
struct Opens {
  Gate& gate;
  ~Opens() { gate.open(); }
};

std::vector<std::unique_ptr<RawPeer>> ask(const TestServer& server, int count,
                                          std::string_view text) {
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < count; ++i) {
    peers.push_back(std::make_unique<RawPeer>(server.port));
    peers.back()->send(text);
  }
  return peers;
}

TEST(Workers, RunWhatWaitsBeforeTheyEnd) {
  std::atomic<int> runs = 0;
  {
    Workers workers(3, 1'000);
    for (int i = 0; i < 300; ++i) {
      FairQueue::Task task = [&] { ++runs; };
      ASSERT_TRUE(workers.post(std::to_string(i % 7), task));
    }
  }
  EXPECT_EQ(runs, 300);
}

TEST(Workers, KeepAllShareLimitsUnderLoad) {
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  {
    Workers workers(8, 10'000);
    for (int i = 0; i < 2'000; ++i) {
      FairQueue::Task task = [&] {
        const int now = ++running;
        int seen = most;
        while (seen < now && !most.compare_exchange_weak(seen, now)) {
        }
        std::this_thread::yield();
        --running;
      };
      ASSERT_TRUE(workers.post("one", task));
    }
  }
  EXPECT_EQ(running, 0);
  EXPECT_LE(most, 4);
}

TEST(Workers, RefuseATaskWhileNoThreadCanBeStartedForIt) {
  std::atomic<int> runs = 0;
  Workers workers(2, 10);
  FairQueue::Task task = [&] { ++runs; };
  {
    const NoThreads exhausted;
    EXPECT_FALSE(workers.post("a", task));
  }
  ASSERT_TRUE(workers.post("a", task));
  EXPECT_TRUE(eventually([&] { return runs == 1; }));
}

TEST(Workers, WithOneThreadComeToEverythingWhileNoOtherCanBeStarted) {
  std::atomic<int> runs = 0;
  Workers workers(4, 100);
  FairQueue::Task first = [&] { ++runs; };
  ASSERT_TRUE(workers.post("a", first));
  const NoThreads exhausted;
  for (int i = 0; i < 20; ++i) {
    FairQueue::Task task = [&] { ++runs; };
    ASSERT_TRUE(workers.post(std::to_string(i % 3), task));
  }
  EXPECT_TRUE(eventually([&] { return runs == 21; }));
}

// A task that runs until it is let go.
struct Long {
  explicit Long(Workers& workers, const std::string& client) {
    FairQueue::Task task = [this] {
      has_begun = true;
      go.wait();
      has_ended = true;
    };
    EXPECT_TRUE(workers.post(client, task));
  }
  ~Long() {  // the task uses this until it has ended
    end();
    EXPECT_TRUE(eventually([this] { return has_ended.load(); }));
  }
  bool begins() {
    return eventually([this] { return has_begun.load(); });
  }
  void end() {
    if (!std::exchange(is_over, true)) {
      go.count_down();
    }
  }

  std::latch go{1};
  std::atomic<bool> has_begun = false;
  std::atomic<bool> has_ended = false;
  bool is_over = false;
};

// Both have used up their shares when their second tasks come. Who then makes room for both runs
// one and calls another thread for the other.
void expect_that_room_for_two_is_used_by_two(Workers& workers) {
  Long a(workers, "a");
  ASSERT_TRUE(a.begins());
  Long b(workers, "b");
  ASSERT_TRUE(b.begins());
  Long b_again(workers, "b");
  Long a_again(workers, "a");
  a.end();
  EXPECT_TRUE(b_again.begins());
  EXPECT_TRUE(a_again.begins());
}

TEST(Workers, StartAThreadForATaskWhoseShareBecomesFree) {
  Workers workers(3, 100);
  expect_that_room_for_two_is_used_by_two(workers);
}

TEST(Workers, WakeAThreadForATaskWhoseShareBecomesFree) {
  Workers workers(3, 100);
  {
    Long x(workers, "x");
    ASSERT_TRUE(x.begins());
    Long y(workers, "y");
    ASSERT_TRUE(y.begins());
    Long z(workers, "z");
    ASSERT_TRUE(z.begins());
  }
  expect_that_room_for_two_is_used_by_two(workers);
}

// The thread that has begun is none of theirs, as the I/O thread that is lent.
TEST(Workers, RunWhatWaitsForAThreadThatIsLentBeforeTheyEnd) {
  std::atomic<int> runs = 0;
  Workers workers(2, 100);
  {
    Long x(workers, "x");
    ASSERT_TRUE(x.begins());
    Long y(workers, "y");
    ASSERT_TRUE(y.begins());
  }
  ASSERT_TRUE(eventually([&] { return workers.begin("a"); }));
  for (int i = 0; i < 3; ++i) {
    FairQueue::Task task = [&] { ++runs; };
    ASSERT_TRUE(workers.post("a", task));
  }
  {
    const std::jthread ends([&] { workers.end(); });
    EXPECT_TRUE(eventually([&] { return workers.has_ended(); }));
    std::this_thread::sleep_for(50ms);  // time to leave too early
    EXPECT_EQ(runs, 0);
    workers.finish("a");
  }
  EXPECT_EQ(runs, 3);
}

// How much less of the processor the calling thread gets.
int niceness() {
  return ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
}

int niceness_of_transfers() {
  return std::min(niceness() + 5, 19);  // the kernel knows no more
}

TEST(Workers, OfTransfersStandBackBehindTheOthers) {
  TestServer server([](std::unique_ptr<Exchange> exchange) {
    exchange->respond({.body = "nice " + std::to_string(niceness()) + "."});
  });
  RawPeer asks(server.port);
  asks.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi");
  EXPECT_THAT(asks.read_answer(), EndsWith("nice " + std::to_string(niceness()) + "."));
  RawPeer sends(server.port);
  sends.send(put("/"));
  EXPECT_THAT(sends.read_answer(),
              EndsWith("nice " + std::to_string(niceness_of_transfers()) + "."));
}

// Threads inherit it, and cannot get rid of it.
TEST(Workers, OfTransfersStartNoThreadsOfTheOthers) {
  TestServer server([](std::unique_ptr<Exchange> exchange) {
    (void)exchange->read_all(100);
    exchange->respond({.body = "nice " + std::to_string(niceness()) + "."});
  });
  RawPeer both(server.port);
  both.send("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + get("/"));
  EXPECT_THAT(both.read_answer(),
              EndsWith("nice " + std::to_string(niceness_of_transfers()) + "."));
  EXPECT_THAT(both.read_answer(), EndsWith("nice " + std::to_string(niceness()) + "."));
}

TEST(Fairness, TwoHundredBlockedRequestsOfOneClientDelayNobodyElse) {
  Gate gate;
  TestServer server(gate.handler(), {.max_workers = 8, .client_of = by_path});
  const Opens at_the_end{gate};
  const auto greedy = ask(server, 200, get("/a/"));
  ASSERT_TRUE(eventually([&] { return gate.entered == 4; }));
  RawPeer modest(server.port);
  for (int i = 0; i < 20; ++i) {
    modest.send(get("/b/"));
    EXPECT_THAT(modest.read_answer(), EndsWith("/b/"));
  }
  EXPECT_EQ(gate.entered, 24);  // of the greedy one no more
  gate.open();
  for (const auto& peer : greedy) {
    EXPECT_THAT(peer->read_answer(), EndsWith("/a/"));
  }
}

// Without client_of all of 127.0.0.1 is one client.
TEST(Fairness, UploadsThatCrawlLeaveTheSameClientsOtherRequestsTheirWorkers) {
  TestServer server(echo, {.max_workers = 8});
  const auto crawling =
      ask(server, 50, "PUT /up HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nx");
  RawPeer quick(server.port);
  for (int i = 0; i < 20; ++i) {
    quick.send(get("/q"));
    EXPECT_THAT(quick.read_answer(), HasSubstr("GET /q"));
  }
}

// Without client_of each address is a client: eight of them have a worker each.
TEST(Fairness, SendersOfManyAddressesThatTrickleLoseTheirWorkers) {
  std::atomic<int> entered = 0;
  TestServer server(
      [&](std::unique_ptr<Exchange> exchange) {
        ++entered;
        echo(std::move(exchange));
      },
      {.max_workers = 8, .io_timeout = 200ms});
  std::vector<std::unique_ptr<RawPeer>> slow;
  for (int i = 2; i < 10; ++i) {
    slow.push_back(std::make_unique<RawPeer>(server.port, "127.0.0." + std::to_string(i)));
    slow.back()->send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  }
  ASSERT_TRUE(eventually([&] { return entered == 8; }));
  const std::jthread trickle([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const auto& peer : slow) {
        peer->send("1\r\nx\r\n");
      }
      std::this_thread::sleep_for(100ms);  // half of io_timeout
    }
  });
  RawPeer upload(server.port);
  upload.send(
      "PUT /up HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
  EXPECT_THAT(upload.read_answer(), EndsWith("PUT /up hi"));
}

TEST(Overload, IsAnsweredAtOnceAndTheConnectionGoesOn) {
  Gate gate;
  TestServer server(gate.handler(), {.max_workers = 1, .max_queued = 8});
  const Opens at_the_end{gate};
  const auto first = ask(server, 1, get("/a/"));
  ASSERT_TRUE(eventually([&] { return gate.entered == 1; }));
  const auto waiting = ask(server, 12, get("/b"));
  std::atomic<int> refused = 0;
  for (const auto& peer : waiting) {
    pollfd ready{.fd = peer->fd(), .events = POLLIN, .revents = 0};
    refused += ::poll(&ready, 1, 50) == 1 ? 1 : 0;
  }
  EXPECT_EQ(refused, 8);  // half of the room is for who comes next
  gate.open();
  int answered = 0;
  for (const auto& peer : waiting) {
    const std::string answer = peer->read_answer();
    if (answer.starts_with("HTTP/1.1 503 ")) {
      peer->send(get("/again"));
      EXPECT_THAT(peer->read_answer(), EndsWith("/again"));
    } else {
      answered += answer.ends_with("/b") ? 1 : 0;
    }
  }
  EXPECT_EQ(answered, 4);
}

// Reads nothing more once a request for /wait is there, until it is told to: what comes meanwhile
// is read in one piece.
struct BusyServer {
  std::string client_of(const Request& request) {
    if (request.path == "/wait") {
      waits = true;
      reading.wait();
    }
    return request.path;
  }

  Gate handling;
  Gate reading;
  std::atomic<bool> waits = false;
  TestServer server{handling.handler(),
                    {.io_threads = 1,
                     .max_workers = 1,
                     .max_queued = 1,
                     .client_of = [this](const Request& request) { return client_of(request); }}};
  const Opens handling_ends{handling};
  const Opens reading_ends{reading};
};

// By the name of the thread that answers.
std::string thread_of_answer(std::size_t io_threads, std::string_view request) {
  const TestServer server(
      [](std::unique_ptr<Exchange> exchange) {
        std::array<char, 16> name{};
        pthread_getname_np(pthread_self(), name.data(), name.size());
        exchange->respond({.body = name.data()});
      },
      {.io_threads = io_threads});
  RawPeer peer(server.port);
  peer.send(request);
  return peer.read_answer();
}

TEST(QuickRequests, RunOnAnIoThreadWhenOthersAreLeftAndNobodyWaits) {
  EXPECT_THAT(thread_of_answer(3, get("/")), EndsWith("http-io"));
  EXPECT_THAT(thread_of_answer(1, get("/")), EndsWith("http-work"));
  EXPECT_THAT(thread_of_answer(3, put("/")), EndsWith("http-work"));
}

TEST(QuickRequests, ThatTakeLongKeepNoOtherFromItsAnswer) {
  Gate gate;
  TestServer server(gate.handler(), {.io_threads = 2});
  const Opens at_the_end{gate};
  const auto slow = ask(server, 3, get("/a"));
  ASSERT_TRUE(eventually([&] { return gate.entered == 3; }));
  const auto others = ask(server, 3, get("/b"));
  for (const auto& peer : others) {
    EXPECT_THAT(peer->read_answer(), EndsWith("/b"));
  }
}

TEST(Overload, OfThousandsOfPipelinedRequestsTakesNoStack) {
  constexpr int kCount = 2'300;  // as many as one connection's buffer holds behind a small body
  BusyServer busy;
  const auto running = ask(busy.server, 1, get("/a"));
  ASSERT_TRUE(eventually([&] { return busy.handling.entered == 1; }));
  const auto waiting = ask(busy.server, 1, get("/a/waits"));
  RawPeer peer(busy.server.port);
  peer.send("POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 65536\r\n\r\n" +
            std::string(65'000, 'x'));
  RawPeer blocks(busy.server.port);
  blocks.send(get("/wait"));
  ASSERT_TRUE(eventually([&] { return busy.waits.load(); }));
  std::string rest(536, 'x');
  for (int i = 0; i < kCount; ++i) {
    rest += "GET / HTTP/1.1\r\nHost:\r\n\r\n";
  }
  peer.send(rest);
  busy.reading.open();
  for (int i = 0; i <= kCount; ++i) {
    ASSERT_THAT(peer.read_answer(), StartsWith("HTTP/1.1 503 ")) << i;
  }
}

TEST(Overload, IsAnsweredInTheUsersOwnWords) {
  Gate gate;
  TestServer server(
      gate.handler(),
      {.io_threads = 1, .max_workers = 1, .max_queued = 1, .overloaded = [](auto exchange) {
         exchange->respond({.status = 400, .body = "slow down"});
       }});
  const Opens at_the_end{gate};
  const auto blocked = ask(server, 1, put("/a/"));
  ASSERT_TRUE(eventually([&] { return gate.entered == 1; }));
  const auto queued = ask(server, 1, put("/b"));
  std::string answer;
  EXPECT_TRUE(eventually([&] {
    RawPeer more(server.port);
    more.send(put("/c"));
    answer = more.read_until("slow down");
    return answer.ends_with("slow down");
  }));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(answer, HasSubstr("Connection: close"));
}

}  // namespace
}  // namespace trainyard::http
