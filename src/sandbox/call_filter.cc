// SPDX-License-Identifier: Apache-2.0
#include "sandbox/call_filter.h"

#include <cerrno>
#include <cstddef>

#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>

namespace trainyard::sandbox {
namespace {

// Numbers from here on are the calls of x32 on x86_64, a second set under the same architecture;
// no other architecture has that many calls.
constexpr std::uint32_t kFirstOfX32 = 0x4000'0000;

constexpr std::uint32_t kNumber = offsetof(seccomp_data, nr);
constexpr std::uint32_t kArchitecture = offsetof(seccomp_data, arch);
// Both processors are little-endian: the low half comes first.
constexpr std::uint32_t kFirstArgument = offsetof(seccomp_data, args);

sock_filter load(std::uint32_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset);
}

sock_filter answer(std::uint32_t action) {
  return BPF_STMT(BPF_RET | BPF_K, action);
}

sock_filter refuse(int error) {
  return answer(SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error));
}

// Goes on with the next instruction where the test holds, otherwise `skipped` further.
sock_filter unless(std::uint16_t test, std::uint32_t value, std::uint8_t skipped) {
  return BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | BPF_K | test), value, 0, skipped);
}

void append(const CallRule& rule, std::vector<sock_filter>& program) {
  if (rule.if_any_bit == 0) {
    program.insert(program.end(), {unless(BPF_JEQ, rule.number, 1), refuse(rule.error)});
    return;
  }
  // The number is no longer in the register after the second load, so this ends either way.
  program.insert(program.end(), {unless(BPF_JEQ, rule.number, 4), load(kFirstArgument),
                                 unless(BPF_JSET, rule.if_any_bit, 1), refuse(rule.error),
                                 answer(SECCOMP_RET_ALLOW)});
}

// The numbers of the tables arch/x86/entry/syscalls/syscall_64.tbl and asm-generic/unistd.h.
struct Numbers {
  std::uint32_t clone;
  std::uint32_t unshare;
  std::uint32_t add_key;
  std::uint32_t request_key;
  std::uint32_t keyctl;
};
constexpr Numbers kX86_64{
    .clone = 56, .unshare = 272, .add_key = 248, .request_key = 249, .keyctl = 250};
constexpr Numbers kAarch64{
    .clone = 220, .unshare = 97, .add_key = 217, .request_key = 218, .keyctl = 219};
constexpr std::uint32_t kClone3 = 435;  // the same everywhere

CallRules rules_of(std::uint32_t architecture, const Numbers& numbers) {
  return {.architecture = architecture,
          .rules = {{.number = numbers.clone, .error = EPERM, .if_any_bit = CLONE_NEWUSER},
                    {.number = numbers.unshare, .error = EPERM, .if_any_bit = CLONE_NEWUSER},
                    {.number = kClone3, .error = ENOSYS},
                    {.number = numbers.add_key, .error = EPERM},
                    {.number = numbers.request_key, .error = EPERM},
                    {.number = numbers.keyctl, .error = EPERM}}};
}

}  // namespace

Result<CallRules> container_rules(std::string_view machine) {
  if (machine == "x86_64") {
    return rules_of(AUDIT_ARCH_X86_64, kX86_64);
  }
  if (machine == "aarch64") {
    return rules_of(AUDIT_ARCH_AARCH64, kAarch64);
  }
  return Error{Code::kUnimplemented,
               fmt::format("instances are enclosed by a filter of system calls, which is written "
                           "for x86_64 and aarch64; this machine is {}",
                           machine)};
}

std::vector<sock_filter> compile_filter(const CallRules& rules) {
  std::vector<sock_filter> program = {load(kArchitecture),
                                      BPF_JUMP(BPF_JMP | BPF_K | BPF_JEQ, rules.architecture, 1, 0),
                                      answer(SECCOMP_RET_KILL_PROCESS),
                                      load(kNumber),
                                      unless(BPF_JGE, kFirstOfX32, 1),
                                      refuse(ENOSYS)};
  for (const CallRule& rule : rules.rules) {
    append(rule, program);
  }
  program.push_back(answer(SECCOMP_RET_ALLOW));
  return program;
}

}  // namespace trainyard::sandbox
