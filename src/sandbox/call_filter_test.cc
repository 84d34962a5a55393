// SPDX-License-Identifier: Apache-2.0
// The decisions of the program by a machine of five instructions, for both processors; that the
// kernel agrees is seen by container_test.cc.
#include "sandbox/call_filter.h"

#include <cerrno>
#include <cstring>

#include <gmock/gmock.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/syscall.h>

namespace trainyard::sandbox {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kAllowed = SECCOMP_RET_ALLOW;
constexpr std::uint32_t kNotOurs = 0xdeadbeef;  // "the program did what a filter may not"

bool holds(std::uint16_t test, std::uint32_t left, std::uint32_t right) {
  switch (test) {
    case BPF_JEQ:
      return left == right;
    case BPF_JGE:
      return left >= right;
    default:
      return (left & right) != 0;
  }
}

std::uint32_t run(const std::vector<sock_filter>& program, const seccomp_data& call) {
  std::uint32_t loaded = 0;
  for (std::size_t at = 0; at < program.size(); ++at) {
    const sock_filter& step = program[at];
    if (step.code == (BPF_RET | BPF_K)) {
      return step.k;
    }
    if (step.code == (BPF_LD | BPF_W | BPF_ABS) && step.k <= sizeof call - sizeof loaded) {
      std::memcpy(&loaded, reinterpret_cast<const char*>(&call) + step.k, sizeof loaded);
    } else if (BPF_CLASS(step.code) == BPF_JMP) {
      at += holds(BPF_OP(step.code), loaded, step.k) ? step.jt : step.jf;
    } else {
      return kNotOurs;
    }
  }
  return kNotOurs;
}

std::uint32_t refused(int error) {
  return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
}

struct Machine {
  const char* name;
  std::uint32_t architecture;
  int clone, unshare, add_key, request_key, keyctl, write;
};

class CallFilter : public ::testing::TestWithParam<Machine> {
 protected:
  std::uint32_t answer(int number, std::uint64_t first = 0) const {
    return answer_for(GetParam().architecture, number, first);
  }
  static std::uint32_t answer_for(std::uint32_t architecture, int number, std::uint64_t first) {
    seccomp_data call = {};
    call.nr = number;
    call.arch = architecture;
    call.args[0] = first;
    return run(compile_filter(*container_rules(GetParam().name)), call);
  }
};

TEST_P(CallFilter, RefusesAUserNamespaceHoweverItIsAskedFor) {
  for (const std::uint64_t others : {0, CLONE_NEWNS, CLONE_NEWNS | CLONE_NEWCGROUP, CLONE_VM}) {
    EXPECT_EQ(answer(GetParam().unshare, CLONE_NEWUSER | others), refused(EPERM));
    EXPECT_EQ(answer(GetParam().clone, CLONE_NEWUSER | others), refused(EPERM));
  }
  // The kernel looks at the low half alone.
  EXPECT_EQ(answer(GetParam().unshare, CLONE_NEWUSER | 1ULL << 40), refused(EPERM));
  EXPECT_EQ(answer(435), refused(ENOSYS));
}

TEST_P(CallFilter, LetsThreadsAndProcessesBeMade) {
  constexpr std::uint64_t kThread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
                                    CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
                                    CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
  EXPECT_EQ(answer(GetParam().clone, kThread), kAllowed);
  EXPECT_EQ(answer(GetParam().clone, CLONE_VM | CLONE_VFORK | 17), kAllowed);  // posix_spawn
  EXPECT_EQ(answer(GetParam().unshare, CLONE_FILES), kAllowed);
}

TEST_P(CallFilter, RefusesTheKeyrings) {
  EXPECT_EQ(answer(GetParam().add_key), refused(EPERM));
  EXPECT_EQ(answer(GetParam().request_key), refused(EPERM));
  EXPECT_EQ(answer(GetParam().keyctl, 11), refused(EPERM));
}

TEST_P(CallFilter, AllowsWhatIsNotNamed) {
  EXPECT_EQ(answer(GetParam().write, CLONE_NEWUSER), kAllowed);
  EXPECT_EQ(answer(434, CLONE_NEWUSER), kAllowed);
  EXPECT_EQ(answer(436, CLONE_NEWUSER), kAllowed);
}

TEST_P(CallFilter, KnowsNoOtherSetOfNumbers) {
  constexpr int kX32 = 0x4000'0000;
  EXPECT_EQ(answer(kX32 + GetParam().unshare, CLONE_NEWUSER), refused(ENOSYS));
  EXPECT_EQ(answer(-1), refused(ENOSYS));
  EXPECT_EQ(answer_for(AUDIT_ARCH_I386, GetParam().write, 0), SECCOMP_RET_KILL_PROCESS);
  EXPECT_EQ(answer_for(AUDIT_ARCH_ARM, GetParam().write, 0), SECCOMP_RET_KILL_PROCESS);
}

INSTANTIATE_TEST_SUITE_P(
    Machines, CallFilter,
    ::testing::Values(Machine{"x86_64", AUDIT_ARCH_X86_64, 56, 272, 248, 249, 250, 1},
                      Machine{"aarch64", AUDIT_ARCH_AARCH64, 220, 97, 217, 218, 219, 64}),
    [](const auto& one) { return std::string(one.param.name); });

#if defined(__x86_64__)
TEST(CallNumbers, AreThoseOfThisMachinesHeaders) {
  const CallRules rules = *container_rules("x86_64");
  std::vector<std::uint32_t> numbers;
  for (const CallRule& rule : rules.rules) {
    numbers.push_back(rule.number);
  }
  EXPECT_THAT(numbers, ::testing::ElementsAre(SYS_clone, SYS_unshare, SYS_clone3, SYS_add_key,
                                              SYS_request_key, SYS_keyctl));
}
#endif

TEST(ContainerRules, NameAMachineThatTheyAreNotWrittenFor) {
  const auto rules = container_rules("riscv64");
  ASSERT_FALSE(rules);
  EXPECT_EQ(rules.error().code, Code::kUnimplemented);
  EXPECT_THAT(rules.error().message, HasSubstr("riscv64"));
}

}  // namespace
}  // namespace trainyard::sandbox
