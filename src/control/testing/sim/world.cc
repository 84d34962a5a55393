// SPDX-License-Identifier: Apache-2.0
#include "control/testing/sim/world.h"

#include <cstdio>

#include <fmt/format.h>

#include "control/testing/sim/server.h"

namespace trainyard::control {

void SimWorld::send(const Call& call) {
  const auto open = std::make_shared<SimAnswer>(call.then);  // until the answer
  const auto answer = [open](Result<nlohmann::json> result) {
    if (const SimAnswer then = std::exchange(*open, nullptr)) {
      then(std::move(result));
    }
  };
  const auto delay = [this] { return dice.between(Duration(1), weather.slowest); };
  const auto deliver = [this, call, answer, delay] {
    if (server == nullptr || server->is_dead()) {
      timeline.after(delay(), [answer] {
        answer(Error{.code = Code::kUnavailable, .message = "connection refused"});
      });
      return;
    }
    call.serve(*server, [this, answer, delay](Result<nlohmann::json> result) {
      if (!dice.chance(weather.lost)) {
        timeline.after(delay(), [answer, result = std::move(result)] { answer(result); });
      }
    });
  };
  timeline.after(call.patience, [answer] {
    answer(Error{.code = Code::kDeadline, .message = "no answer in time"});
  });
  const int copies = dice.chance(weather.doubled) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    if (!call.is_cut() && !dice.chance(weather.lost)) {
      timeline.after(delay(), [this, deliver] {
        const Duration pause = server == nullptr ? Duration() : server->pause_left();
        pause.count() > 0 ? timeline.after(pause, deliver) : deliver();
      });
    }
  }
}

void SimWorld::note(std::string_view text) {
  if (is_traced) {
    const auto passed = std::chrono::duration<double>(clock.now() - kTestTime);
    std::fputs(fmt::format("{:9.3f} {}\n", passed.count(), text).c_str(), stderr);
  }
}

void SimWorld::broken(std::string text) {
  note("BROKEN: " + text);
  violations.push_back(std::move(text));
}

}  // namespace trainyard::control
