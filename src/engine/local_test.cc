// SPDX-License-Identifier: Apache-2.0
// The real engine on a private host. The supervisor is a shell script that notes its arguments and
// waits; a second engine on the same directory plays the restarted server.
#include "engine/local.h"

#include <csignal>
#include <future>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/text.h"
#include "base/thread.h"
#include "sandbox/cgroup.h"
#include "sandbox/process.h"
#include "testing/private_host.h"

namespace trainyard::engine {
namespace {

using control::GangId;
using control::RunningInstance;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using trainyard::testing::output_of;
using trainyard::testing::picture_of_host;

constexpr std::chrono::seconds kDeadline(5);
const GangId kGang{.job = "job-1", .epoch = 1};

// What the supervisor of a test does before it waits.
constexpr std::string_view kScript = R"(#!/bin/sh
if [ "$1" = instance-probe ]; then echo "$PROBE" >&2; [ -z "$PROBE" ]; exit; fi
echo "hello from $5"
echo "$*" > "$5/args"
if [ -n "$DAEMON" ]; then setsid sh -c '(trap "" TERM HUP; sleep 1000) & ' & fi
mv "$5/args" "$5/arguments"
sleep 1000
)";

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    poll(nullptr, 0, 1);
  }
  return true;
}

// The server's part: which gateways are open, and on which port.
struct FakeServer {
  std::map<std::string, std::uint16_t> open;
  std::uint16_t next_port = 40001;
};

// The limit under which so many more files can be open.
rlim_t files_with(int more) {
  int limit = 0;
  for (; more > 0; ++limit) {
    more -= fcntl(limit, F_GETFD) < 0 ? 1 : 0;
  }
  return static_cast<rlim_t>(limit);
}

class LocalEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    YARD_PRIVATE_HOST_OR_SKIP();
    ASSERT_TRUE(directory_);
    ASSERT_TRUE(write_file(directory_->path() / "supervisor", kScript, 0755));
    before_ = picture_of_host();
    restart();
  }

  void TearDown() override {
    if (engine_ != nullptr) {
      EXPECT_TRUE(engine_->release(kGang));
    }
  }

  Path run_directory() const { return directory_->path() / "run"; }
  Path gang_directory() const { return run_directory() / kGang.job / "1"; }
  Path scratch(const std::string& host) const { return gang_directory() / host; }
  Path meeting() const { return gang_directory() / "meeting"; }

  // A server that starts again, as after kill -9: its listeners are gone.
  void restart() {
    engine_.reset();
    server_.open.clear();
    LocalEngineOptions options{.run_directory = run_directory(),
                               .program = directory_->path() / "supervisor",
                               .environment = environment_};
    options.open_gateway = [this](const std::string& address,
                                  std::uint16_t port) -> Result<std::string> {
      if (refuse_gateway_) {
        return Error{Code::kUnavailable, "no gateway today"};
      }
      const std::uint16_t chosen = port != 0 ? port : server_.next_port++;
      server_.open[address] = chosen;
      return fmt::format("http://{}:{}", address, chosen);
    };
    options.close_gateway = [this](const std::string& address) { server_.open.erase(address); };
    auto engine = LocalEngine::make(std::move(options), random_);
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = *std::move(engine);
    engine_->on_exit([this](const RunningInstance& instance) { exits_.push(instance); });
  }

  void adopt_limited(decltype(RLIMIT_NOFILE) what, rlim_t most) {
    rlimit before = {};
    getrlimit(what, &before);
    const rlimit low{.rlim_cur = most, .rlim_max = before.rlim_max};
    setrlimit(what, &low);
    EXPECT_TRUE(engine_->adopt());
    setrlimit(what, &before);
  }

  control::GangNetwork prepare(int instances) {
    auto network = engine_->prepare({.id = kGang, .instances = instances});
    EXPECT_TRUE(network) << network.error().message;
    return std::move(network).value_or({});
  }

  Result<void> start(int instances) {
    std::vector<control::InstanceStart> starts;
    for (int i = 1; i <= instances; ++i) {
      starts.push_back({.host = fmt::format("algo-{}", i), .token = fmt::format("secret-{}", i)});
    }
    return engine_->start(kGang, starts);
  }

  // One host for a later attempt; waits until its supervisor is at its wait.
  Result<void> replace(const std::string& host, int epoch) {
    Result<void> started =
        engine_->start(kGang, {{.host = host, .token = "a new secret", .epoch = epoch}});
    if (started) {
      EXPECT_TRUE(eventually([&] { return std::filesystem::exists(scratch(host) / "arguments"); }));
    }
    return started;
  }

  // What on_exit told next.
  RunningInstance next_exit() {
    auto told = exits_.pop_for(kDeadline);
    EXPECT_TRUE(told) << "no end was told";
    return std::move(told).value_or(RunningInstance{});
  }

  RunningInstance listed(const std::string& host) {
    const auto all = engine_->list();
    for (const RunningInstance& instance : all ? *all : std::vector<RunningInstance>()) {
      if (instance.host == host) {
        return instance;
      }
    }
    ADD_FAILURE() << host << " is not listed";
    return {};
  }

  // The pids of all that lives in the network of a host, whoever its parent is.
  std::string pids_in_network_of(const std::string& host) {
    const std::string name = fmt::format(
        "trainyard-{}-{}", Records(run_directory()).gangs().at(0).network.tag, host.back());
    return std::string(trim(output_of({"ip", "netns", "pids", name})));
  }

  // Starts a gang and waits until every supervisor is at its wait.
  void run_gang(int instances) {
    prepare(instances);
    const auto started = start(instances);
    ASSERT_TRUE(started) << started.error().message;
    for (int i = 1; i <= instances; ++i) {
      const Path ready = scratch(fmt::format("algo-{}", i)) / "arguments";
      ASSERT_TRUE(eventually([&] { return std::filesystem::exists(ready); }));
    }
  }

  pid_t pid_of(const std::string& host) const {
    const auto found = sandbox::find_session_leaders(scratch(host).string());
    EXPECT_THAT(found, SizeIs(1)) << host;
    return found.empty() ? 0 : found.front().pid;
  }

  std::vector<std::string> alive() {
    std::vector<std::string> hosts;
    auto all = engine_->list();
    EXPECT_TRUE(all);
    for (const RunningInstance& instance : std::move(all).value_or({})) {
      if (instance.alive) {
        hosts.push_back(instance.host);
      }
    }
    return hosts;
  }

  void expect_nothing_left() {
    EXPECT_EQ(picture_of_host(), before_);
    EXPECT_THAT(server_.open, IsEmpty());
    EXPECT_TRUE(std::filesystem::is_empty(run_directory()));
    EXPECT_THAT(sandbox::find_session_leaders(scratch("algo-1").string()), IsEmpty());
  }

  Result<TempDir> directory_ = TempDir::make();
  std::map<std::string, std::string> before_;
  std::map<std::string, std::string> environment_;
  SystemRandom random_;
  FakeServer server_;
  bool refuse_gateway_ = false;
  BoundedQueue<RunningInstance> exits_{100};
  std::unique_ptr<LocalEngine> engine_;
};

TEST_F(LocalEngineTest, GivesTheGangAddressesAndAWayToTheServer) {
  const control::GangNetwork network = prepare(2);
  EXPECT_THAT(network.addresses, ElementsAre("10.77.0.1", "10.77.0.2"));
  EXPECT_EQ(network.interface, "eth0");
  EXPECT_EQ(network.server, "http://10.77.0.254:40001");
}

TEST_F(LocalEngineTest, StartsEachSupervisorInsideItsNetworkWithItsToken) {
  run_gang(2);
  const Path second = scratch("algo-2");
  EXPECT_EQ(*read_file(second / "arguments"),
            fmt::format("instance --server http://10.77.0.254:40001 --scratch {} --meeting {}\n",
                        second.string(), meeting().string()));
  EXPECT_EQ(*read_file(second / "token"), "secret-2");
  struct stat status = {};
  ASSERT_EQ(stat((second / "token").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  ASSERT_EQ(stat(meeting().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  EXPECT_THAT(*read_file(second / "supervisor.log"), HasSubstr("hello from"));
  EXPECT_THAT(output_of({"ip", "netns", "identify", std::to_string(pid_of("algo-2"))}),
              HasSubstr("-2\n"));
}

TEST_F(LocalEngineTest, TellsWhenASupervisorEnds) {
  run_gang(2);
  EXPECT_THAT(alive(), ElementsAre("algo-1", "algo-2"));
  ASSERT_EQ(kill(pid_of("algo-2"), SIGKILL), 0);
  const RunningInstance ended = next_exit();
  EXPECT_EQ(ended.id, kGang);
  EXPECT_EQ(ended.host, "algo-2");
  EXPECT_FALSE(ended.alive);
  EXPECT_THAT(alive(), ElementsAre("algo-1"));
}

TEST_F(LocalEngineTest, StartsNothingTwice) {
  run_gang(2);
  const pid_t first = pid_of("algo-1");
  const pid_t second = pid_of("algo-2");
  EXPECT_TRUE(start(2));
  EXPECT_EQ(pid_of("algo-1"), first);
  EXPECT_EQ(pid_of("algo-2"), second);
  EXPECT_EQ(*read_file(scratch("algo-2") / "token"), "secret-2");
}

TEST_F(LocalEngineTest, ReplacesOneInstanceAndLeavesTheOthersAlone) {
  run_gang(2);
  const pid_t first = pid_of("algo-1");
  ASSERT_EQ(kill(pid_of("algo-2"), SIGKILL), 0);
  ASSERT_TRUE(exits_.pop_for(kDeadline));
  ASSERT_TRUE(write_file(scratch("algo-2") / "left", "over"));
  const auto replaced = replace("algo-2", 2);
  ASSERT_TRUE(replaced) << replaced.error().message;
  EXPECT_EQ(pid_of("algo-1"), first);
  EXPECT_EQ(listed("algo-1").epoch, 1);
  EXPECT_TRUE(listed("algo-2").alive);
  EXPECT_EQ(listed("algo-2").epoch, 2);
  EXPECT_EQ(*read_file(scratch("algo-2") / "token"), "a new secret");
  EXPECT_FALSE(std::filesystem::exists(scratch("algo-2") / "left"));
  EXPECT_THAT(read_file(scratch("algo-2") / "supervisor.log").value_or(""),
              HasSubstr("hello from"));
  EXPECT_TRUE(start(1)) << "algo-1 of the first attempt still runs";
  EXPECT_EQ(pid_of("algo-1"), first);
  ASSERT_TRUE(engine_->release(kGang));
  expect_nothing_left();
}

// Silent, not dead: stopped processes cannot clean up after themselves, nor daemons be found by
// their parents.
TEST_F(LocalEngineTest, EndsAllOfASilentInstanceBeforeItReplacesIt) {
  environment_ = {{"DAEMON", "1"}};
  restart();
  run_gang(2);
  const pid_t old = pid_of("algo-2");
  const std::string inside = pids_in_network_of("algo-2");
  for (const std::string_view pid : split(inside, '\n')) {
    ASSERT_EQ(kill(static_cast<pid_t>(*parse_int(pid)), SIGSTOP), 0);
  }
  ASSERT_TRUE(replace("algo-2", 2));
  EXPECT_NE(pid_of("algo-2"), old);
  for (const std::string_view pid : split(inside, '\n')) {
    EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(Path("/proc") / pid); })) << pid;
  }
  EXPECT_FALSE(exits_.pop_for(std::chrono::milliseconds(0))) << "we ended it ourselves";
}

TEST_F(LocalEngineTest, TellsOfWhichAttemptAnInstanceWas) {
  run_gang(1);
  ASSERT_TRUE(replace("algo-1", 3));
  ASSERT_EQ(kill(pid_of("algo-1"), SIGKILL), 0);
  const RunningInstance ended = next_exit();
  EXPECT_EQ(ended.epoch, 3);
  EXPECT_EQ(listed("algo-1").epoch, 3);
  EXPECT_FALSE(exits_.pop_for(std::chrono::milliseconds(0)));
}

TEST_F(LocalEngineTest, StartsAgainWhatHasEndedInTheSameAttempt) {
  run_gang(2);
  ASSERT_EQ(kill(pid_of("algo-2"), SIGKILL), 0);
  ASSERT_TRUE(exits_.pop_for(kDeadline));
  ASSERT_TRUE(replace("algo-2", 1));
  EXPECT_THAT(alive(), ElementsAre("algo-1", "algo-2"));
}

TEST_F(LocalEngineTest, RefusesToGoBackToAnEarlierAttempt) {
  run_gang(1);
  ASSERT_TRUE(replace("algo-1", 2));
  const pid_t pid = pid_of("algo-1");
  const auto back = engine_->start(kGang, {{.host = "algo-1", .token = "t", .epoch = 1}});
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, Code::kConflict);
  EXPECT_EQ(pid_of("algo-1"), pid);
}

TEST_F(LocalEngineTest, LeavesTheOthersRunningWhenAReplacementFails) {
  run_gang(2);
  const pid_t first = pid_of("algo-1");
  ASSERT_TRUE(remove_tree(directory_->path() / "supervisor"));
  EXPECT_FALSE(replace("algo-2", 2));
  EXPECT_THAT(alive(), ElementsAre("algo-1"));
  EXPECT_EQ(pid_of("algo-1"), first);
  ASSERT_TRUE(write_file(directory_->path() / "supervisor", kScript, 0755));
  EXPECT_TRUE(replace("algo-2", 3));
  EXPECT_THAT(alive(), ElementsAre("algo-1", "algo-2"));
}

// kill -9 of the server at any point of a replacement: the gang is still there, and the start can
// be asked again.
TEST_F(LocalEngineTest, GoesOnWithAReplacementThatWasInterrupted) {
  run_gang(1);
  const pid_t pid = pid_of("algo-1");
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  ASSERT_TRUE(exits_.pop_for(kDeadline));
  ASSERT_TRUE(Records(run_directory()).write(kGang, {.host = "algo-1", .process = {}, .epoch = 2}));
  ASSERT_TRUE(remove_tree(scratch("algo-1")));
  restart();
  ASSERT_TRUE(engine_->adopt());
  EXPECT_FALSE(listed("algo-1").alive);
  EXPECT_EQ(listed("algo-1").epoch, 2);
  EXPECT_THAT(server_.open, SizeIs(1)) << "for those that are to come";
  ASSERT_TRUE(replace("algo-1", 2));
  restart();
  EXPECT_TRUE(listed("algo-1").alive);
  EXPECT_EQ(listed("algo-1").epoch, 2);
}

TEST_F(LocalEngineTest, LeavesNothingAfterRelease) {
  environment_ = {{"DAEMON", "1"}};
  restart();
  run_gang(2);
  const Path mounted = scratch("algo-1") / "mnt";
  ASSERT_TRUE(make_directories(mounted));
  ASSERT_EQ(mount("tmpfs", mounted.c_str(), "tmpfs", 0, nullptr), 0);
  ASSERT_TRUE(write_file(mounted / "file", "x"));
  const auto released = engine_->release(kGang);
  ASSERT_TRUE(released) << released.error().message;
  expect_nothing_left();
  EXPECT_THAT(alive(), IsEmpty());
  EXPECT_TRUE(engine_->release(kGang)) << "again";
}

TEST_F(LocalEngineTest, DoesNotTellOfWhatItEndedItself) {
  run_gang(2);
  ASSERT_TRUE(engine_->release(kGang));
  run_gang(1);
  ASSERT_EQ(kill(pid_of("algo-1"), SIGKILL), 0);
  const RunningInstance only = next_exit();
  EXPECT_EQ(only.host, "algo-1");
  EXPECT_FALSE(exits_.pop_for(std::chrono::milliseconds(0)));
}

TEST_F(LocalEngineTest, StartsAllOrNone) {
  prepare(2);
  // Something is in the way of the second instance.
  ASSERT_TRUE(write_file(scratch("algo-2"), "a file"));
  const auto started = start(2);
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message, HasSubstr("algo-2"));
  EXPECT_THAT(alive(), IsEmpty());
  EXPECT_THAT(sandbox::find_session_leaders(scratch("algo-1").string()), IsEmpty());
  EXPECT_FALSE(exits_.pop_for(std::chrono::milliseconds(0)));

  ASSERT_TRUE(remove_tree(scratch("algo-2")));
  EXPECT_TRUE(start(2)) << "the gang can still be started";
  EXPECT_THAT(alive(), ElementsAre("algo-1", "algo-2"));
}

TEST_F(LocalEngineTest, SaysWhichProgramCannotBeStarted) {
  ASSERT_TRUE(remove_tree(directory_->path() / "supervisor"));
  prepare(1);
  const auto started = start(1);
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message, HasSubstr((directory_->path() / "supervisor").string()));
}

TEST_F(LocalEngineTest, LeavesNoControlGroupOfAnInstanceThatCouldNotBeStarted) {
  ASSERT_TRUE(remove_tree(directory_->path() / "supervisor"));
  prepare(1);
  ASSERT_FALSE(start(1));
  const std::vector<Path> groups = sandbox::read_groups(scratch("algo-1") / "cgroups");
  EXPECT_FALSE(groups.empty()) << "this machine has none to be left";
  for (const Path& group : groups) {
    EXPECT_FALSE(std::filesystem::exists(group)) << group;
  }
}

TEST_F(LocalEngineTest, IsTakenOverByARestartedServer) {
  run_gang(2);
  const auto open_before = server_.open;
  const pid_t first = pid_of("algo-1");
  restart();
  EXPECT_THAT(alive(), ElementsAre("algo-1", "algo-2"));
  EXPECT_EQ(server_.open, open_before) << "instances know only the old port";
  EXPECT_TRUE(start(2));
  EXPECT_EQ(pid_of("algo-1"), first);

  ASSERT_EQ(kill(first, SIGKILL), 0);
  const RunningInstance ended = next_exit();
  EXPECT_EQ(ended.host, "algo-1");
  ASSERT_TRUE(engine_->release(kGang));
  expect_nothing_left();
}

TEST_F(LocalEngineTest, ListsAsDeadWhatEndedWhileTheServerWasAway) {
  run_gang(1);
  const auto process = sandbox::identify(pid_of("algo-1"));
  ASSERT_TRUE(process);
  const auto pidfd = sandbox::open_process(*process);
  ASSERT_TRUE(pidfd);
  engine_.reset();
  ASSERT_TRUE(sandbox::kill_and_wait(pidfd->get(), kDeadline));
  restart();
  const auto all = engine_->list();
  ASSERT_TRUE(all);
  ASSERT_THAT(*all, SizeIs(1));
  EXPECT_FALSE(all->front().alive);
}

// kill -9 between the start of a process and the record of its pid.
TEST_F(LocalEngineTest, FindsAnInstanceWhosePidWasNeverRecorded) {
  run_gang(1);
  const pid_t pid = pid_of("algo-1");
  ASSERT_TRUE(Records(run_directory()).write(kGang, {.host = "algo-1", .process = {}}));
  restart();
  EXPECT_THAT(alive(), ElementsAre("algo-1"));
  EXPECT_TRUE(start(1));
  EXPECT_EQ(pid_of("algo-1"), pid);
}

// The disk is full by then.
TEST_F(LocalEngineTest, TakesOverAnInstanceWhosePidCannotBeRecorded) {
  run_gang(1);
  ASSERT_TRUE(Records(run_directory()).write(kGang, {.host = "algo-1", .process = {}}));
  restart();
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  adopt_limited(RLIMIT_FSIZE, 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(Records(run_directory()).instances(kGang).at(0).process.pid, 0);
  EXPECT_THAT(alive(), ElementsAre("algo-1"));
  ASSERT_TRUE(engine_->release(kGang));
  expect_nothing_left();
}

TEST_F(LocalEngineTest, TakesOverInstancesThatItCannotWatch) {
  run_gang(2);
  restart();
  adopt_limited(RLIMIT_NOFILE, files_with(3));  // enough to find both and to watch one
  EXPECT_THAT(alive(), ElementsAre("algo-1", "algo-2"));
  ASSERT_TRUE(engine_->release(kGang));
  expect_nothing_left();
}

TEST_F(LocalEngineTest, StartsAnInstanceOfWhichOnlyTheIntentWasRecorded) {
  run_gang(1);
  ASSERT_TRUE(Records(run_directory()).write(kGang, {.host = "algo-2", .process = {}}));
  restart();
  EXPECT_THAT(alive(), ElementsAre("algo-1"));
  EXPECT_FALSE(listed("algo-2").alive);
}

TEST_F(LocalEngineTest, TakesAwayAGangOfWhichNothingWasStarted) {
  prepare(2);
  restart();
  ASSERT_TRUE(engine_->adopt());
  expect_nothing_left();
}

TEST_F(LocalEngineTest, KnowsThatNothingOutlivesARestartOfTheMachine) {
  run_gang(1);
  Records records(run_directory());
  GangRecord record = records.gangs().at(0);
  record.boot = "the boot before";
  ASSERT_TRUE(records.write(record));
  restart();
  EXPECT_THAT(alive(), IsEmpty());
  EXPECT_THAT(server_.open, IsEmpty());
  ASSERT_TRUE(engine_->release(kGang));
  expect_nothing_left();
}

TEST_F(LocalEngineTest, StartsAGangAgainAfterARestartOfTheMachine) {
  run_gang(2);
  Records records(run_directory());
  GangRecord record = records.gangs().at(0);
  engine_.reset();
  const auto plan = sandbox::plan_network(record.network);
  ASSERT_TRUE(plan);
  for (const sandbox::InstanceLink& link : plan->instances) {
    ASSERT_TRUE(sandbox::kill_all_in({link.network_namespace}, kDeadline));
  }
  ASSERT_TRUE(sandbox::NetworkChange::begin({})->undo(*plan));
  record.boot = "the boot before";
  ASSERT_TRUE(records.write(record));
  restart();
  const std::vector<control::InstanceStart> both = {{.host = "algo-1", .token = "1", .epoch = 2},
                                                    {.host = "algo-2", .token = "2", .epoch = 2}};
  const auto started = engine_->start(kGang, both);
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_THAT(alive(), ElementsAre("algo-1", "algo-2"));
  EXPECT_THAT(server_.open, SizeIs(1));
  restart();
  EXPECT_THAT(alive(), ElementsAre("algo-1", "algo-2"));
}

TEST_F(LocalEngineTest, GivesTheSameAnswerWhenAskedAgain) {
  const control::GangNetwork first = prepare(2);
  const control::GangNetwork second = prepare(2);
  EXPECT_EQ(first.addresses, second.addresses);
  EXPECT_EQ(first.server, second.server);
  const auto other = engine_->prepare({.id = kGang, .instances = 3});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kAlreadyExists);
}

TEST_F(LocalEngineTest, LeavesNothingWhenTheServerCannotListen) {
  refuse_gateway_ = true;
  const auto network = engine_->prepare({.id = kGang, .instances = 2});
  ASSERT_FALSE(network);
  EXPECT_THAT(network.error().message, HasSubstr("no gateway today"));
  expect_nothing_left();
}

TEST_F(LocalEngineTest, RunsGangsSideBySideUnderLongNames) {
  const GangId other{.job = std::string(63, 'j'), .epoch = 12};
  run_gang(1);
  const auto network = engine_->prepare({.id = other, .instances = 1, .isolated = true});
  ASSERT_TRUE(network) << network.error().message;
  EXPECT_THAT(network->addresses, ElementsAre("10.77.1.1"));
  EXPECT_TRUE(engine_->start(other, {{.host = "algo-1", .token = "t"}}));
  EXPECT_TRUE(engine_->release(other));
  EXPECT_THAT(alive(), ElementsAre("algo-1"));
}

TEST_F(LocalEngineTest, RefusesNamesThatItDoesNotKnow) {
  EXPECT_FALSE(engine_->prepare({.id = {.job = "../x", .epoch = 1}}));
  const auto unknown = engine_->start(kGang, {{.host = "algo-1", .token = "t"}});
  ASSERT_FALSE(unknown) << "not prepared";
  EXPECT_EQ(unknown.error().code, Code::kNotFound);
  EXPECT_EQ(unknown.error().subject, control::kGangSubject);
  prepare(1);
  for (const char* host : {"algo-0", "algo-2", "algo-", "node-1", "algo-1/.."}) {
    EXPECT_FALSE(engine_->start(kGang, {{.host = host, .token = "t"}})) << host;
  }
}

}  // namespace
}  // namespace trainyard::engine
