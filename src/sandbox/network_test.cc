// SPDX-License-Identifier: Apache-2.0
// On a private host (testing/private_host.h) with one more namespace that plays the outside world:
// it has no route back to the instances, so it answers only what carries the host's own address.
#include "sandbox/network.h"

#include <csignal>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/subprocess.h"
#include "base/text.h"
#include "base/thread.h"
#include "sandbox/process.h"
#include "testing/private_host.h"

namespace trainyard::sandbox {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using trainyard::testing::output_of;
using trainyard::testing::picture_of_host;

constexpr const char* kHostAddress = "198.51.100.1";
constexpr const char* kOutsideAddress = "198.51.100.2";
constexpr int kReachable = 2000;   // ms within which a connection must come about
constexpr int kUnreachable = 150;  // ms after which a dropped one counts as refused for good

NetworkPlan make_gang(const std::string& tag, int instances, bool isolated) {
  auto change = NetworkChange::begin({});
  EXPECT_TRUE(change) << change.error().message;
  auto plan = change->choose(tag, instances, isolated);
  EXPECT_TRUE(plan) << plan.error().message;
  const auto applied = change->apply(*plan);
  EXPECT_TRUE(applied) << applied.error().message;
  return *std::move(plan);
}

void undo(const NetworkPlan& plan) {
  auto change = NetworkChange::begin({});
  ASSERT_TRUE(change) << change.error().message;
  const auto undone = change->undo(plan);
  EXPECT_TRUE(undone) << undone.error().message;
}

// Runs `body` in the namespace, or here when the name is empty.
void inside(const std::string& name, const std::function<void()>& body) {
  if (name.empty()) {
    return body();
  }
  const auto fd = open_namespace(name);
  ASSERT_TRUE(fd) << name;
  EXPECT_TRUE(run_in_namespace(fd->get(), [&] {
    body();
    return Result<void>();
  }));
}

sockaddr_in socket_address(const std::string& address, std::uint16_t port) {
  sockaddr_in out = {};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  EXPECT_EQ(inet_pton(AF_INET, address.c_str(), &out.sin_addr), 1);
  return out;
}

struct Listener {
  Fd fd;
  std::string address;
  std::uint16_t port = 0;

  std::string accept_peer() const {
    sockaddr_in peer = {};
    socklen_t size = sizeof(peer);
    const Fd accepted(accept4(fd.get(), reinterpret_cast<sockaddr*>(&peer), &size, SOCK_CLOEXEC));
    EXPECT_TRUE(accepted.is_open());
    return inet_ntoa(peer.sin_addr);
  }
};

Listener listen_in(const std::string& name, const std::string& address) {
  Listener listener{.fd = Fd(), .address = address};
  inside(name, [&] {
    listener.fd = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in bound = socket_address(address, 0);
    socklen_t size = sizeof(bound);
    EXPECT_EQ(bind(listener.fd.get(), reinterpret_cast<sockaddr*>(&bound), size), 0);
    EXPECT_EQ(listen(listener.fd.get(), 8), 0);
    getsockname(listener.fd.get(), reinterpret_cast<sockaddr*>(&bound), &size);
    listener.port = ntohs(bound.sin_port);
  });
  return listener;
}

bool reaches(const std::string& from, const Listener& to, int within_ms) {
  bool connected = false;
  inside(from, [&] {
    const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_in peer = socket_address(to.address, to.port);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)) != 0 &&
        errno != EINPROGRESS) {
      return;
    }
    pollfd ready{.fd = fd.get(), .events = POLLOUT, .revents = 0};
    connected = poll(&ready, 1, within_ms) == 1 && (ready.revents & (POLLERR | POLLHUP)) == 0;
  });
  return connected;
}

void add_outside_world() {
  output_of({"ip", "link", "set", "lo", "up"});
  output_of({"ip", "netns", "add", "outside"});
  output_of(
      {"ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1", "netns", "outside"});
  output_of({"ip", "addr", "add", std::string(kHostAddress) + "/24", "dev", "up0"});
  output_of({"ip", "link", "set", "up0", "up"});
  output_of(
      {"ip", "-n", "outside", "addr", "add", std::string(kOutsideAddress) + "/24", "dev", "up1"});
  output_of({"ip", "-n", "outside", "link", "set", "up1", "up"});
}

TEST(Network, LetsInstancesReachEachOtherAndTheirGateway) {
  YARD_PRIVATE_HOST_OR_SKIP();
  const NetworkPlan plan = make_gang("00000a", 2, false);
  const std::string& first = plan.instances[0].network_namespace;
  const std::string& second = plan.instances[1].network_namespace;
  EXPECT_TRUE(reaches(first, listen_in(second, plan.instances[1].address), kReachable));
  EXPECT_TRUE(reaches(second, listen_in(first, plan.instances[0].address), kReachable));
  EXPECT_TRUE(reaches(second, listen_in("", plan.gateway), kReachable));
  EXPECT_TRUE(reaches("", listen_in(second, plan.instances[1].address), kReachable));
  undo(plan);
}

TEST(Network, GivesEachInstanceTheInterfacesOfTheContract) {
  YARD_PRIVATE_HOST_OR_SKIP();
  const NetworkPlan plan = make_gang("00000a", 1, false);
  const std::string& name = plan.instances[0].network_namespace;
  const std::string eth0 = output_of({"ip", "-n", name, "addr", "show", "dev", "eth0"});
  EXPECT_THAT(eth0, HasSubstr("mtu 1400"));
  EXPECT_THAT(eth0, HasSubstr(plan.instances[0].address + "/24"));
  EXPECT_THAT(eth0, Not(HasSubstr("inet6")));
  EXPECT_THAT(output_of({"ip", "-n", name, "addr", "show", "dev", "lo"}),
              HasSubstr("169.254.170.2/32"));
  const Listener credentials = listen_in(name, "169.254.170.2");
  EXPECT_TRUE(reaches(name, credentials, kReachable));
  undo(plan);
}

TEST(Network, SendsTrafficOutUnderTheHostsAddress) {
  YARD_PRIVATE_HOST_OR_SKIP();
  add_outside_world();
  const NetworkPlan plan = make_gang("00000a", 1, false);
  const Listener listener = listen_in("outside", kOutsideAddress);
  ASSERT_TRUE(reaches(plan.instances[0].network_namespace, listener, kReachable));
  EXPECT_EQ(listener.accept_peer(), kHostAddress);
  undo(plan);
}

TEST(Network, KeepsTheMachinesOwnCloudCredentialsOutOfReach) {
  YARD_PRIVATE_HOST_OR_SKIP();
  add_outside_world();
  output_of({"ip", "-n", "outside", "addr", "add", "169.254.169.254/32", "dev", "up1"});
  output_of({"ip", "route", "add", "169.254.169.254/32", "dev", "up0"});
  const Listener metadata = listen_in("outside", "169.254.169.254");
  ASSERT_TRUE(reaches("", metadata, kReachable));
  const NetworkPlan plan = make_gang("00000a", 1, false);
  EXPECT_FALSE(reaches(plan.instances[0].network_namespace, metadata, kUnreachable));
  undo(plan);
}

TEST(Network, LetsNobodyOutsideOpenConnectionsIn) {
  YARD_PRIVATE_HOST_OR_SKIP();
  add_outside_world();
  output_of({"ip", "-n", "outside", "route", "add", "default", "via", kHostAddress});
  const NetworkPlan plan = make_gang("00000a", 1, false);
  const Listener listener =
      listen_in(plan.instances[0].network_namespace, plan.instances[0].address);
  EXPECT_FALSE(reaches("outside", listener, kUnreachable));
  undo(plan);
}

TEST(Network, KeepsAnIsolatedGangToItsPeersAndItsGateway) {
  YARD_PRIVATE_HOST_OR_SKIP();
  add_outside_world();
  const NetworkPlan open = make_gang("00000a", 1, false);  // forwarding is on because of this one
  const NetworkPlan isolated = make_gang("00000b", 2, true);
  const std::string& from = isolated.instances[0].network_namespace;
  EXPECT_TRUE(reaches(from, listen_in("", isolated.gateway), kReachable));
  EXPECT_TRUE(reaches(
      from, listen_in(isolated.instances[1].network_namespace, isolated.instances[1].address),
      kReachable));
  EXPECT_FALSE(reaches(from, listen_in("outside", kOutsideAddress), kUnreachable));
  EXPECT_FALSE(reaches(from, listen_in("", kHostAddress), kUnreachable));
  EXPECT_FALSE(reaches(from, listen_in("", open.gateway), kUnreachable));
  undo(isolated);
  undo(open);
}

TEST(Network, KeepsGangsApart) {
  YARD_PRIVATE_HOST_OR_SKIP();
  const NetworkPlan one = make_gang("00000a", 1, false);
  const NetworkPlan two = make_gang("00000b", 1, false);
  const Listener listener = listen_in(two.instances[0].network_namespace, two.instances[0].address);
  EXPECT_FALSE(reaches(one.instances[0].network_namespace, listener, kUnreachable));
  undo(one);
  undo(two);
}

TEST(Network, LeavesNothingBehindHoweverOftenItIsUndone) {
  YARD_PRIVATE_HOST_OR_SKIP();
  add_outside_world();
  const auto before = picture_of_host();
  const NetworkPlan plan = make_gang("00000a", 3, false);
  EXPECT_NE(picture_of_host(), before);
  undo(plan);
  EXPECT_EQ(picture_of_host(), before);
  undo(plan);
  EXPECT_EQ(picture_of_host(), before);
}

// Connections of one that stays, to one that is renewed and to the gateway, use addresses that the
// kernel has learnt before; a link that was cut stands again.
TEST(Network, RenewsOneInstanceWithoutDisturbingTheOthers) {
  YARD_PRIVATE_HOST_OR_SKIP();
  const NetworkPlan plan = make_gang("00000a", 2, false);
  const std::string& first = plan.instances[0].network_namespace;
  const InstanceLink& lost = plan.instances[1];
  ASSERT_TRUE(reaches(first, listen_in(lost.network_namespace, lost.address), kReachable));
  const std::string kept = output_of({"ip", "-n", first, "link", "show", "dev", "eth0"});
  output_of({"ip", "link", "set", lost.veth, "down"});
  {
    auto change = NetworkChange::begin({});
    ASSERT_TRUE(change);
    for (int time = 1; time <= 2; ++time) {
      const auto renewed = change->renew(plan, {lost});
      ASSERT_TRUE(renewed) << renewed.error().message;
    }
  }
  EXPECT_TRUE(reaches(first, listen_in("", plan.gateway), kReachable));
  EXPECT_TRUE(reaches(first, listen_in(lost.network_namespace, lost.address), kReachable));
  EXPECT_TRUE(reaches("", listen_in(lost.network_namespace, lost.address), kReachable));
  EXPECT_EQ(output_of({"ip", "-n", first, "link", "show", "dev", "eth0"}), kept);
  undo(plan);
}

TEST(Network, RestoresForwardingWithTheLastGangOnly) {
  YARD_PRIVATE_HOST_OR_SKIP();
  // A new namespace takes over what the machine has, and there a job may be running.
  output_of({"sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_forward"});
  const NetworkPlan isolated = make_gang("00000a", 1, true);
  EXPECT_EQ(picture_of_host()["ip_forward"], "0\n");
  const NetworkPlan first = make_gang("00000b", 1, false);
  const NetworkPlan second = make_gang("00000c", 1, false);
  undo(first);
  undo(isolated);
  EXPECT_EQ(picture_of_host()["ip_forward"], "1\n");
  EXPECT_THAT(picture_of_host()["firewall"], HasSubstr(to_string(second.request.subnet)));
  EXPECT_THAT(picture_of_host()["firewall"], Not(HasSubstr(to_string(first.request.subnet))));
  undo(second);
  EXPECT_EQ(picture_of_host()["ip_forward"], "0\n");
}

TEST(Network, LeavesForwardingOnForThoseWhoHaveBegunToForward) {
  YARD_PRIVATE_HOST_OR_SKIP();
  output_of({"sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_forward"});
  output_of({"ip", "link", "add", "before0", "type", "bridge"});
  undo(make_gang("00000a", 1, false));
  EXPECT_EQ(picture_of_host()["ip_forward"], "0\n");
  const NetworkPlan gang = make_gang("00000b", 1, false);
  output_of({"ip", "link", "add", "docker0", "type", "bridge"});
  undo(gang);
  EXPECT_EQ(picture_of_host()["ip_forward"], "1\n");
  undo(make_gang("00000c", 1, false));
  EXPECT_EQ(picture_of_host()["ip_forward"], "1\n");
}

TEST(Network, LeavesForwardingOnWhereItWasOn) {
  YARD_PRIVATE_HOST_OR_SKIP();
  output_of({"sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"});
  undo(make_gang("00000a", 1, false));
  EXPECT_EQ(picture_of_host()["ip_forward"], "1\n");
}

TEST(Network, AvoidsAddressesAndRoutesOfTheHost) {
  YARD_PRIVATE_HOST_OR_SKIP();
  add_outside_world();
  output_of({"ip", "link", "add", "vpn0", "type", "veth", "peer", "name", "vpn1"});
  output_of({"ip", "addr", "add", "10.77.0.5/24", "dev", "vpn0"});  // an interface that is down
  output_of({"ip", "route", "add", "10.77.1.0/24", "via", kOutsideAddress, "table", "77"});
  auto change = NetworkChange::begin({});
  ASSERT_TRUE(change);
  const auto plan = change->choose("00000a", 1, false);
  ASSERT_TRUE(plan);
  EXPECT_EQ(to_string(plan->request.subnet), "10.77.2.0/24");
}

TEST(Network, RefusesATagThatIsTaken) {
  YARD_PRIVATE_HOST_OR_SKIP();
  const NetworkPlan first = make_gang("00000a", 1, false);
  {
    auto change = NetworkChange::begin({});
    ASSERT_TRUE(change);
    const auto second = change->choose("00000a", 1, false);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::kAlreadyExists);
  }
  undo(first);
}

TEST(Network, UndoesWhatItDidWhenAStepFails) {
  YARD_PRIVATE_HOST_OR_SKIP();
  auto change = NetworkChange::begin({});
  ASSERT_TRUE(change);
  const auto plan = change->choose("00000a", 2, false);
  ASSERT_TRUE(plan);
  output_of({"ip", "link", "add", plan->instances[1].veth, "type", "bridge"});
  const auto before = picture_of_host();
  const auto applied = change->apply(*plan);
  ASSERT_FALSE(applied);
  EXPECT_THAT(applied.error().message, HasSubstr("File exists"));
  EXPECT_EQ(picture_of_host(), before);
}

TEST(Network, NamesThePackageOfAMissingTool) {
  YARD_PRIVATE_HOST_OR_SKIP();
  const std::string nft(trim(output_of({"sh", "-c", "readlink -f $(command -v nft)"})));
  ASSERT_EQ(mount("/dev/null", nft.c_str(), nullptr, MS_BIND, nullptr), 0);
  const auto change = NetworkChange::begin({});
  EXPECT_EQ(umount(nft.c_str()), 0);
  ASSERT_FALSE(change);
  EXPECT_EQ(change.error().code, Code::kNotFound);
  EXPECT_THAT(change.error().message, HasSubstr("nftables"));
}

TEST(Network, NamesTheCapabilityThatIsMissing) {
  Result<void> refused;
  start_thread("no-caps",
               [&](const std::stop_token&) {  // capabilities belong to a thread
                 __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
                 __user_cap_data_struct none[2] = {};
                 ASSERT_EQ(syscall(SYS_capset, &header, none), 0);
                 const auto change = NetworkChange::begin({});
                 refused = change ? Result<void>() : change.error();
               })
      .join();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_THAT(refused.error().message, HasSubstr("CAP_NET_ADMIN"));
}

TEST(KillAllIn, FindsAProcessWhoseFirstThreadHasEnded) {
  YARD_PRIVATE_HOST_OR_SKIP();
  const NetworkPlan plan = make_gang("00000a", 1, false);
  const auto entered = open_namespace(plan.instances[0].network_namespace);
  ASSERT_TRUE(entered);
  const auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  auto child = spawn({.argv = {"/usr/bin/python3", "-c",
                               "import ctypes, os, threading, time\n"
                               "def stay():\n"
                               "  time.sleep(0.1); os.write(3, b'x'); time.sleep(1000)\n"
                               "threading.Thread(target=stay).start()\n"
                               "ctypes.CDLL(None).pthread_exit(None)"},
                      .env = {{"PATH", "/usr/bin:/bin"}},
                      .fds = {{pipe->write_end.get(), 3}},
                      .network_namespace = entered->get()});
  ASSERT_TRUE(child);
  std::byte said[1];
  ASSERT_TRUE(read_some(pipe->read_end.get(), said));

  ASSERT_TRUE(kill_all_in({plan.instances[0].network_namespace}, std::chrono::seconds(5)));

  constexpr ExitStatus kAlive{.code = -1};
  const auto status = child->wait_for(std::chrono::seconds(0));
  ASSERT_TRUE(status);
  EXPECT_EQ(status->value_or(kAlive).signal, SIGKILL);
  undo(plan);
}

TEST(KillAllIn, EndsDaemonsThatLeftTheirParents) {
  YARD_PRIVATE_HOST_OR_SKIP();
  const NetworkPlan plan = make_gang("00000a", 1, false);
  const auto entered = open_namespace(plan.instances[0].network_namespace);
  ASSERT_TRUE(entered);
  const auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  // setsid and a double fork; the daemon says its pid through the pipe.
  auto parent =
      spawn({.argv = {"/bin/sh", "-c",
                      "setsid sh -c '(trap \"\" TERM HUP; echo $$ >&3; exec sleep 1000) &'"},
             .env = {{"PATH", "/usr/bin:/bin"}},
             .fds = {{pipe->write_end.get(), 3}},
             .network_namespace = entered->get()});
  ASSERT_TRUE(parent);
  ASSERT_TRUE(parent->wait());
  std::byte text[16];
  ASSERT_TRUE(read_some(pipe->read_end.get(), text));

  ASSERT_TRUE(kill_all_in({plan.instances[0].network_namespace}, std::chrono::seconds(5)));

  EXPECT_EQ(trim(output_of({"ip", "netns", "pids", plan.instances[0].network_namespace})), "");
  undo(plan);
}

}  // namespace
}  // namespace trainyard::sandbox
