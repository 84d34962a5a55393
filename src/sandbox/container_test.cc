// SPDX-License-Identifier: Apache-2.0
#include "sandbox/container.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <unistd.h>

namespace trainyard::sandbox {
namespace {

using Kind = ContainerMount::Kind;

std::string flat(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& argument : argv) {
    text += argument + " ";
  }
  return text;
}

ContainerSpec shell(const std::string& script) {
  return {.hostname = "algo-7",
          .mounts = {{.kind = Kind::kTmpfs, .target = "/root"},
                     {.kind = Kind::kDev, .target = "/dev"},
                     {.kind = Kind::kTmpfs, .target = "/dev/shm", .size = 1 << 20},
                     {.kind = Kind::kProc, .target = "/proc"}},
          .program = "/bin/sh",
          .arguments = {"-c", script}};
}

Result<std::string> output_of(ContainerSpec spec) {
  YARD_TRY(Pipe pipe, make_pipe());
  spec.fds = {{pipe.write_end.get(), 1}, {pipe.write_end.get(), 2}};
  YARD_TRY(Child child, start_container(spec));
  pipe.write_end.reset();
  std::string text;
  std::byte chunk[4096];
  while (true) {
    YARD_TRY(const std::size_t count, read_some(pipe.read_end.get(), chunk));
    if (count == 0) {
      break;
    }
    text.append(reinterpret_cast<const char*>(chunk), count);
  }
  YARD_TRY(const ExitStatus status, child.wait());
  return text + to_string(status);
}

TEST(BubblewrapArguments, MountInTheGivenOrderOnAReadOnlyRoot) {
  ContainerSpec spec{.hostname = "algo-1",
                     .mounts = {{.kind = Kind::kTmpfs, .target = "/home"},
                                {.kind = Kind::kBind, .target = "/opt/ml", .source = "/s/ml"}},
                     .program = "/bin/true",
                     .arguments = {"init", "4"}};
  const std::string text = flat(bubblewrap_arguments(spec, 9));
  EXPECT_NE(text.find("--hostname algo-1 --ro-bind / / --tmpfs /home --bind /s/ml /opt/ml"),
            std::string::npos);
  EXPECT_NE(text.find("--as-pid-1 --chdir / -- /proc/self/fd/3 init 4 "), std::string::npos);
  EXPECT_NE(text.find("--seccomp 9 "), std::string::npos);
}

TEST(BubblewrapArguments, TakeTheNetworkAwayWhereThatIsAsked) {
  ContainerSpec spec = shell("true");
  EXPECT_EQ(flat(bubblewrap_arguments(spec, 9)).find("--unshare-net"), std::string::npos);
  spec.has_empty_network = true;
  spec.mounts.push_back({.kind = Kind::kSymlink, .target = "/opt/x", .source = "/srv/x"});
  const std::string text = flat(bubblewrap_arguments(spec, 9));
  EXPECT_NE(text.find("bwrap --unshare-net "), std::string::npos);
  EXPECT_NE(text.find("--symlink /srv/x /opt/x"), std::string::npos);
}

TEST(BubblewrapArguments, DropEveryCapabilityBeforeGivingSomeBack) {
  const std::vector<std::string> argv = bubblewrap_arguments(shell("true"), 9);
  const auto drop = std::find(argv.begin(), argv.end(), "--cap-drop");
  const auto add = std::find(argv.begin(), argv.end(), "--cap-add");
  ASSERT_NE(drop, argv.end());
  EXPECT_EQ(*(drop + 1), "ALL");
  EXPECT_LT(drop, add);
  EXPECT_EQ(std::count(argv.begin(), argv.end(), "CAP_SYS_ADMIN"), 0);
}

TEST(Container, IsItsOwnHostWithItsOwnProcesses) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  const Result<std::string> text =
      output_of(shell("echo $$; uname -n; ls /root; ls /proc | grep "
                      "-c '^[0-9]'; touch /etc/x 2>/dev/null || "
                      "echo read-only; exit 5"));
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(text->substr(0, 9), "1\nalgo-7\n");
  EXPECT_NE(text->find("read-only\nexit code 5"), std::string::npos) << *text;
}

TEST(Container, CannotChangeTheKernelsSettings) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  const auto output = output_of(
      shell("for f in kernel/core_pattern vm/drop_caches net/ipv4/ip_forward kernel/hostname; do "
            "(: >>/proc/sys/$f) 2>/dev/null && echo $f; done; cat /proc/sys/kernel/hostname"));
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_EQ(*output, "algo-7\nexit code 0");
}

// By the kernel; call_filter_test.cc has the cases.
TEST(Container, RefusesUserNamespacesAndKeyringsButNoProcesses) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  const auto output =
      output_of(shell("unshare --user true 2>/dev/null || echo no namespace; "
                      "unshare --user --mount --cgroup true 2>/dev/null || echo none of several; "
                      "unshare true && sh -c 'sleep 0 & wait' && cat </proc/self/status | "
                      "grep '^Seccomp:'"));
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_EQ(*output, "no namespace\nnone of several\nSeccomp:\t2\nexit code 0");
}

TEST(Container, SaysWhyAMountFailed) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  ContainerSpec spec = shell("true");
  spec.mounts.push_back({.kind = Kind::kBind, .target = "/opt/ml", .source = "/no/such/place"});
  const Result<std::string> text = output_of(spec);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_NE(text->find("/no/such/place"), std::string::npos);
  EXPECT_NE(text->find("exit code 1"), std::string::npos);
}

}  // namespace
}  // namespace trainyard::sandbox
