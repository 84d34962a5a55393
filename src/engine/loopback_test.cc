// SPDX-License-Identifier: Apache-2.0
// The engine without networks of its own, as an ordinary user has it; it needs no root. The
// supervisor is a shell script, and the server's listeners are real, since they claim the blocks.
#include <csignal>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/subprocess.h"
#include "base/text.h"
#include "engine/local.h"
#include "sandbox/process.h"

namespace trainyard::engine {
namespace {

using control::GangId;
using ::testing::AllOf;
using ::testing::HasSubstr;

const GangId kGang{.job = "job-1", .epoch = 1};

constexpr std::string_view kScript = R"(#!/bin/sh
if [ "$1" = instance-probe ]; then echo "$PROBE" >&2; [ -z "$PROBE" ]; exit; fi
(trap "" TERM HUP; sleep 1000) &
echo $! >"$5/child"
echo "$*" >"$5/args"
mv "$5/args" "$5/arguments"
sleep 1000
)";

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 5000 && !condition(); ++i) {
    poll(nullptr, 0, 1);
  }
  return condition();
}

class LoopbackEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(directory_);
    // A test before us may have left this process on a private host (testing/private_host.h).
    static_cast<void>(run_command({.argv = {"ip", "link", "set", "lo", "up"}, .inherit_env = true},
                                  std::chrono::seconds(5)));
    ASSERT_TRUE(write_file(directory_->path() / "supervisor", kScript, 0755));
    restart();
  }
  void TearDown() override {
    if (engine_ != nullptr) {
      EXPECT_TRUE(engine_->release(kGang));
      EXPECT_TRUE(listeners_.empty());
      EXPECT_TRUE(std::filesystem::is_empty(directory_->path() / "run"));
    }
  }

  Path scratch(const std::string& host) const {
    return directory_->path() / "run" / kGang.job / "1" / host;
  }
  std::string text_in(const std::string& host, const std::string& file) const {
    return read_file(scratch(host) / file).value_or("");
  }

  static Result<Fd> listen_at(const std::string& address, std::uint16_t port) {
    Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    inet_pton(AF_INET, address.c_str(), &at.sin_addr);
    if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 ||
        listen(socket.get(), 1) != 0) {
      return Error{Code::kConflict, address + " is taken"};
    }
    return socket;
  }

  void restart() {
    engine_.reset();
    listeners_.clear();
    LocalEngineOptions options{.run_directory = directory_->path() / "run",
                               .program = directory_->path() / "supervisor",
                               .environment = {{"PROBE", probe_}},
                               .network_kind = NetworkKind::kLoopback};
    options.open_gateway = [this](const std::string& address,
                                  std::uint16_t port) -> Result<std::string> {
      YARD_TRY(Fd listener, listen_at(address, port));
      listeners_[address] = std::move(listener);
      return fmt::format("http://{}:{}", address, port);
    };
    options.close_gateway = [this](const std::string& address) { listeners_.erase(address); };
    auto engine = LocalEngine::make(std::move(options), random_);
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = *std::move(engine);
  }

  control::GangNetwork prepare_and_start(int instances) {
    auto network = engine_->prepare({.id = kGang, .instances = instances});
    EXPECT_TRUE(network) << network.error().message;
    std::vector<control::InstanceStart> starts;
    for (int i = 1; i <= instances; ++i) {
      starts.push_back({.host = fmt::format("algo-{}", i), .token = "secret"});
    }
    const auto started = engine_->start(kGang, starts);
    EXPECT_TRUE(started) << started.error().message;
    for (const control::InstanceStart& start : starts) {
      EXPECT_TRUE(eventually([&] { return !text_in(start.host, "arguments").empty(); }));
    }
    return std::move(network).value_or({});
  }

  // The process that the supervisor of this host has left running beside itself.
  bool child_lives(const std::string& pid) const {
    return read_file("/proc/" + std::string(trim(pid)) + "/cmdline")
        .value_or("")
        .starts_with("sleep");
  }

  Result<TempDir> directory_ = TempDir::make();
  SystemRandom random_;
  std::string probe_;
  std::map<std::string, Fd> listeners_;
  std::unique_ptr<LocalEngine> engine_;
};

TEST_F(LoopbackEngineTest, GivesAddressesOfTheLoopbackAndPorts) {
  const control::GangNetwork network = prepare_and_start(2);
  ASSERT_EQ(network.addresses.size(), 2U);
  EXPECT_THAT(network.addresses[0], ::testing::MatchesRegex("127\\.77\\..*\\.1"));
  EXPECT_THAT(network.addresses[1], ::testing::MatchesRegex("127\\.77\\..*\\.2"));
  EXPECT_EQ(network.interface, "lo");
  EXPECT_TRUE(listeners_.contains(network.server.substr(7, network.server.rfind(':') - 7)));
  const int gateway = std::stoi(network.server.substr(network.server.rfind(':') + 1));
  EXPECT_THAT(
      text_in("algo-2", "arguments"),
      AllOf(HasSubstr("--server " + network.server),
            HasSubstr(fmt::format(" --loopback {}-{}", gateway - 3, gateway + 96)),
            HasSubstr("--scratch " + scratch("algo-2").string()),
            HasSubstr("--meeting " + (scratch("algo-2").parent_path() / "meeting").string())));
}

TEST_F(LoopbackEngineTest, ReleasesWhatTheSupervisorsHaveStartedToo) {
  prepare_and_start(2);
  const std::string child = text_in("algo-1", "child");
  ASSERT_TRUE(eventually([&] { return child_lives(child); }));
  ASSERT_TRUE(engine_->release(kGang));
  EXPECT_FALSE(child_lives(child));
}

TEST_F(LoopbackEngineTest, ARestartedServerListensWhereItsGangsExpectIt) {
  const control::GangNetwork network = prepare_and_start(1);
  restart();
  ASSERT_TRUE(engine_->adopt());
  EXPECT_EQ(listeners_.size(), 1U);
  const auto again = engine_->prepare({.id = kGang, .instances = 1});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->addresses, network.addresses);
  EXPECT_EQ(again->server, network.server);
}

TEST_F(LoopbackEngineTest, ReplacesOneHostAndLeavesTheOtherAlone) {
  prepare_and_start(2);
  const std::string kept = text_in("algo-1", "child");
  const std::string lost = text_in("algo-2", "child");
  const auto replaced = engine_->start(kGang, {{.host = "algo-2", .token = "new", .epoch = 2}});
  ASSERT_TRUE(replaced) << replaced.error().message;
  EXPECT_TRUE(eventually([&] { return !text_in("algo-2", "arguments").empty(); }));
  EXPECT_TRUE(child_lives(kept));
  EXPECT_FALSE(child_lives(lost));
  EXPECT_EQ(text_in("algo-2", "token"), "new");
}

TEST_F(LoopbackEngineTest, GivesNoTwoGangsTheSameAddresses) {
  const auto first = engine_->prepare({.id = kGang, .instances = 1});
  const GangId other{.job = "job-2", .epoch = 1};
  const auto second = engine_->prepare({.id = other, .instances = 1});
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->addresses, second->addresses);
  EXPECT_TRUE(engine_->release(other));
}

TEST_F(LoopbackEngineTest, RefusesToIsolateInstancesFromAllButEachOther) {
  const auto refused = engine_->prepare({.id = kGang, .instances = 2, .isolated = true});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
}

TEST_F(LoopbackEngineTest, PassesOnWhatIsInTheWayUntilItIsNot) {
  probe_ = "user.max_user_namespaces is 0";
  restart();
  const auto refused = engine_->prepare({.id = kGang, .instances = 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_EQ(refused.error().message, probe_);
  ASSERT_TRUE(write_file(directory_->path() / "supervisor", "#!/bin/sh\nexit 0\n", 0755));
  EXPECT_TRUE(engine_->prepare({.id = kGang, .instances = 1}));
}

}  // namespace
}  // namespace trainyard::engine
