// SPDX-License-Identifier: Apache-2.0
// TCP connections to the server under test.
#pragma once

#include <chrono>

#include "base/fd.h"
#include "base/result.h"
#include "bench/load/answer.h"
#include "bench/load/plan.h"
#include "bench/load/work.h"

namespace trainyard::load {

// Connected, without Nagle's delay; reads and writes give up after plan.answer_timeout. Switched to
// not blocking by the caller, if it wants that.
Result<Fd> connect_to(const Plan& plan);

Result<void> make_nonblocking(const Fd& fd);

// One request and its whole answer on a blocking connection.
Result<Answer> ask(const Fd& fd, const Prepared& request, bool keeps_text);

}  // namespace trainyard::load
