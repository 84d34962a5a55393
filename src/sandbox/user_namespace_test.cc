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

// Runs the probe after `setting` in a user namespace of its own, where settings are its own, too.
std::string probe_after(const std::string& setting) {
  const std::string script = setting +
                             "exec /proc/self/fd/9 --gtest_also_run_disabled_tests "
                             "--gtest_filter=UserNamespaceChild.DISABLED_Probe";
  const Result<Fd> self = open_file("/proc/self/exe", O_RDONLY);
  const auto output = run_command({.argv = {"unshare", "-Ur", "sh", "-c", script},
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

}  // namespace
}  // namespace trainyard::sandbox
