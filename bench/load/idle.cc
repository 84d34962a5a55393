// SPDX-License-Identifier: Apache-2.0
#include "bench/load/idle.h"

#include <string>
#include <utility>

#include "bench/load/socket.h"

namespace trainyard::load {
namespace {

Result<void> ask_once(const Fd& fd, Work& work) {
  YARD_TRY(const auto next, work.next(0));
  if (!next) {
    return Error{Code::kInvalidArgument, "there is nothing to ask for on an idle connection"};
  }
  YARD_TRY(const Answer answer, ask(fd, *next->request, work.looks_into_bodies()));
  return work.check(0, *next, answer);
}

}  // namespace

Result<IdleConnections> IdleConnections::open(const Plan& plan, Work& work) {
  IdleConnections made;
  for (std::size_t i = 0; i < plan.idle; ++i) {
    YARD_TRY(Fd fd, connect_to(plan));
    if (auto asked = ask_once(fd, work); !asked) {
      return asked.error().in("opening idle connection " + std::to_string(i));
    }
    made.fds_.push_back(std::move(fd));
  }
  return made;
}

std::uint64_t IdleConnections::count_answering(Work& work) const {
  std::uint64_t count = 0;
  for (const Fd& fd : fds_) {
    count += ask_once(fd, work) ? 1 : 0;
  }
  return count;
}

}  // namespace trainyard::load
