// SPDX-License-Identifier: Apache-2.0
#include "sandbox/user_namespace.h"

#include <cerrno>
#include <cstdio>
#include <map>

#include <fcntl.h>
#include <gmock/gmock.h>

#include "base/subprocess.h"

namespace trainyard::sandbox {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The words for a user namespace that was refused with `error`, on a machine whose /proc/sys holds
// these files.
std::string words_for(int error, const std::map<std::string, std::string>& files,
                      const std::string& status = "Seccomp:\t0\n") {
  const auto proc = TempDir::make();
  EXPECT_TRUE(make_directories(proc->path() / "self/ns/user"));
  EXPECT_TRUE(write_file(proc->path() / "self/status", status));
  for (const auto& [name, text] : files) {
    const Path file = proc->path() / "sys" / name;
    EXPECT_TRUE(make_directories(file.parent_path()));
    EXPECT_TRUE(write_file(file, text + "\n"));
  }
  const Error words =
      explain({.what = "a user namespace", .error = error}, read_settings(proc->path()));
  EXPECT_EQ(words.code, Code::kDenied);
  return words.message;
}

TEST(UserNamespace, NamesTheLimitThatIsZero) {
  EXPECT_THAT(words_for(ENOSPC, {{"user/max_user_namespaces", "0"}}),
              HasSubstr("user.max_user_namespaces is 0. Set it, as root: sysctl -w "
                        "user.max_user_namespaces=15000"));
}

TEST(UserNamespace, NamesTheLimitThatIsReached) {
  EXPECT_THAT(words_for(ENOSPC, {{"user/max_user_namespaces", "7"}}),
              AllOf(HasSubstr("user.max_user_namespaces is 7, and that many are in use"),
                    HasSubstr("user.max_user_namespaces=15007")));
}

TEST(UserNamespace, NamesDebiansSwitch) {
  EXPECT_THAT(words_for(EPERM, {{"kernel/unprivileged_userns_clone", "0"},
                                {"user/max_user_namespaces", "0"}}),
              HasSubstr("sysctl -w kernel.unprivileged_userns_clone=1"));
}

TEST(UserNamespace, NamesTheRestrictionOfAppArmor) {
  const std::map<std::string, std::string> machine = {
      {"kernel/unprivileged_userns_clone", "1"},
      {"kernel/apparmor_restrict_unprivileged_userns", "1"}};
  for (const int error : {EPERM, EACCES}) {
    EXPECT_THAT(words_for(error, machine),
                AllOf(HasSubstr("kernel.apparmor_restrict_unprivileged_userns is 1"),
                      HasSubstr("AppArmor profile"), HasSubstr("restrict_unprivileged_userns=0")));
  }
}

TEST(UserNamespace, SuspectsTheContainerAroundUs) {
  EXPECT_THAT(words_for(EPERM, {}, "Seccomp:\t2\n"), HasSubstr("seccomp"));
  EXPECT_THAT(words_for(EPERM, {}), HasSubstr("no setting that we know of"));
}

TEST(UserNamespace, SaysThatTheKernelHasNone) {
  EXPECT_THAT(
      explain({.what = "a user namespace", .error = EINVAL}, {.knows_user_namespaces = false})
          .message,
      HasSubstr("CONFIG_USER_NS"));
}

// Not a test: what the tests below start, since a process enters for good.
TEST(UserNamespaceChild, DISABLED_Probe) {
  const Result<void> probed = probe_user_namespaces();
  std::fprintf(stderr, "probe: %s\n", probed ? "fine" : probed.error().message.c_str());
}

// Runs the probe after `setting` in a user namespace of its own, where settings are its own, too;
// and so are mounts.
std::string probe_after(const std::string& setting) {
  const std::string script = setting +
                             "exec /proc/self/fd/9 --gtest_also_run_disabled_tests "
                             "--gtest_filter=UserNamespaceChild.DISABLED_Probe";
  const Result<Fd> self = open_file("/proc/self/exe", O_RDONLY);
  const auto output = run_command({.argv = {"unshare", "-Urm", "sh", "-c", script},
                                   // Looking for leaks, a tracer of another namespace never ends.
                                   .env = {{"ASAN_OPTIONS", "detect_leaks=0"}},
                                   .inherit_env = true,
                                   .fds = {{self->get(), 9}}},
                                  std::chrono::seconds(20));
  EXPECT_TRUE(output) << output.error().message;
  return output ? output->err : std::string();
}

TEST(UserNamespace, IsMadeByTheRealKernel) {
  const std::string words = probe_after("");
  if (words.find("refuses") != std::string::npos) {
    GTEST_SKIP() << words;
  }
  EXPECT_THAT(words, HasSubstr("probe: fine"));
}

TEST(UserNamespace, IsRefusedByTheRealKernelWithTheSettingNamed) {
  const std::string first = probe_after("");
  if (first.find("fine") == std::string::npos) {
    GTEST_SKIP() << first;
  }
  EXPECT_THAT(probe_after("echo 0 >/proc/sys/user/max_user_namespaces && "),
              AllOf(HasSubstr("a user namespace"), HasSubstr("user.max_user_namespaces is 0")));
  EXPECT_THAT(probe_after("echo 1 >/proc/sys/user/max_user_namespaces && "
                          "echo 0 >/proc/sys/user/max_pid_namespaces && "),
              AllOf(HasSubstr("a process namespace"), HasSubstr("user.max_pid_namespaces is 0")));
}

// The refusal of a /proc on a machine with these mounts.
std::string words_for_proc(const std::string& mountinfo) {
  const auto proc = TempDir::make();
  EXPECT_TRUE(make_directories(proc->path() / "self/ns/user"));
  EXPECT_TRUE(write_file(proc->path() / "self/mountinfo", mountinfo));
  return explain({.what = "a /proc of its own", .error = EPERM, .is_of_proc = true},
                 read_settings(proc->path()))
      .message;
}

TEST(UserNamespace, NamesWhatCoversPartsOfProc) {
  // A container of Docker's, as it is by default.
  const std::string container =
      "600 599 0:60 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw\n"
      "601 600 0:60 /bus /proc/bus ro,nosuid,nodev,noexec,relatime - proc proc rw\n"
      "602 600 0:60 /fs /proc/fs ro,nosuid,nodev,noexec,relatime - proc proc rw\n"
      "603 600 0:60 /sys /proc/sys ro,nosuid,nodev,noexec,relatime - proc proc rw\n"
      "604 600 0:64 / /proc/acpi ro,relatime - tmpfs tmpfs ro\n"
      "605 600 0:61 /null /proc/kcore rw,nosuid - tmpfs tmpfs rw\n";
  EXPECT_THAT(words_for_proc(container),
              AllOf(HasSubstr("/proc/bus, /proc/fs, /proc/sys, /proc/acpi and 1 more are covered"),
                    HasSubstr("systempaths=unconfined"), HasSubstr("unmask=ALL")));
}

// The kernel says EPERM for what is covered, and something else for other reasons.
TEST(UserNamespace, BlamesWhatCoversProcForItsOwnErrorOnly) {
  const KernelSettings masked{.limits = {{"mnt", 7}}, .masked = {"/proc/bus"}};
  const auto words = [&](int error) {
    return explain(
               {.what = "a /proc of its own", .error = error, .limit = "mnt", .is_of_proc = true},
               masked)
        .message;
  };
  EXPECT_THAT(words(EPERM), HasSubstr("/proc/bus is covered"));
  EXPECT_THAT(words(ENOMEM),
              AllOf(HasSubstr("no setting that we know of"), HasSubstr("Cannot allocate memory")));
  EXPECT_THAT(words(ENOSPC), HasSubstr("user.max_mnt_namespaces is 7"));
}

TEST(UserNamespace, DoesNotBlameWhatIsMountedOnPurpose) {
  const std::string machine =
      "24 30 0:22 / /proc rw,relatime - proc proc rw\n"
      "36 24 0:33 / /proc/sys/fs/binfmt_misc rw,relatime - autofs systemd-1 rw,fd=30\n"
      "40 36 0:37 / /proc/sys/fs/binfmt_misc rw,relatime - binfmt_misc binfmt_misc rw\n";
  EXPECT_THAT(words_for_proc(machine), HasSubstr("no setting that we know of"));
}

TEST(UserNamespace, IsRefusedByTheRealKernelWhereProcIsMasked) {
  const std::string first = probe_after("");
  if (first.find("fine") == std::string::npos) {
    GTEST_SKIP() << first;
  }
  EXPECT_THAT(probe_after("mount -t tmpfs masked /proc/tty && "),
              AllOf(HasSubstr("a /proc of its own"), HasSubstr("/proc/tty is covered")));
  EXPECT_THAT(probe_after("mount --bind /dev/null /proc/version && "
                          "mount -t tmpfs masked /proc/irq && "),
              HasSubstr("/proc/version, /proc/irq are covered"));
  // Without any program that mounts, too.
  EXPECT_THAT(probe_after("mount -t tmpfs masked /proc/tty && PATH=/nowhere "),
              HasSubstr("/proc/tty is covered"));
}

}  // namespace
}  // namespace trainyard::sandbox
