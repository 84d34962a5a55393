// SPDX-License-Identifier: Apache-2.0
// What the library knows of an operation of another backend: its number, and what was said of it;
// and what the other backend says of its own failures, until the library has said why.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "base.h"

namespace trainyard::torch_shim {

using Clock = std::chrono::steady_clock;

// How long the library may take to say why another backend failed.
inline constexpr Milliseconds kExplanation{1500};

struct Numbered {
  std::uint64_t sequence = 0;
  yard_elsewhere what = {};
};

// `agreement` is the caller's to free.
inline Numbered agree(const Communicator& communicator, const yard_elsewhere& what,
                      Milliseconds timeout, yard_work** agreement) {
  char* error = nullptr;
  const int code = yard_comm_agree(communicator.get(), &what, timeout.count(), agreement, &error);
  check(code, error);
  return {.sequence = yard_work_sequence(*agreement), .what = what};
}

// Those of one Work: one, with its agreement, or those that it was given. A receive from any rank
// gets its own in wait(), while the monitor looks.
class Numbers {
 public:
  Numbers() = default;
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  ~Numbers() {
    if (agreement_ != nullptr) {
      yard_work_free(agreement_);
    }
  }

  void take(std::vector<Numbered> given) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_ = std::move(given);
  }
  // However many threads call it.
  void agree_once(const Communicator& communicator, const yard_elsewhere& what,
                  Milliseconds timeout) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (agreement_ == nullptr) {
      all_ = {agree(communicator, what, timeout, &agreement_)};
    }
  }
  // Null before agree_once().
  yard_work* agreement() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return agreement_;
  }
  std::optional<Numbered> first() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return all_.empty() ? std::nullopt : std::optional(all_.front());
  }

  void give_up(const Communicator& communicator, Milliseconds timeout) const {
    if (const auto one = first()) {
      yard_comm_give_up(communicator.get(), one->sequence, &one->what, timeout.count(), nullptr);
    }
  }
  void end(const Communicator& communicator, bool is_complete) const {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto ended = all_;
    lock.unlock();
    for (const Numbered& one : ended) {
      yard_comm_end(communicator.get(), one.sequence, &one.what, is_complete ? 1 : 0);
    }
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Numbered> all_;
  yard_work* agreement_ = nullptr;
};

inline std::string without_stack(const std::string& text) {
  return text.substr(0, text.find("\nException raised from"));
}

// What a backend does not have, it has on no rank.
inline bool is_of_all_ranks(const std::string& refusal) {
  return refusal.find("does not support") != std::string::npos ||
         refusal.find("does not implement") != std::string::npos;
}

// The others may have begun it, so that this rank's next operation would meet theirs of now.
inline void tell_refusal(const Communicator& communicator, const std::string& text) {
  if (!is_of_all_ranks(text)) {
    yard_comm_abort(communicator.get(), without_stack(text).c_str());
  }
}

// What the library says of a failure, once it knows; nothing when it does not.
inline std::string explanation_of(const Communicator& communicator) {
  const auto deadline = Clock::now() + kExplanation;
  char* text = nullptr;
  while (yard_comm_fault(communicator.get(), &text) == YARD_OK) {
    if (Clock::now() > deadline) {
      return "";
    }
    std::this_thread::sleep_for(Milliseconds(10));
  }
  return taken(text);
}

inline std::exception_ptr explained(const Communicator& communicator,
                                    const std::exception& thrown) {
  const std::string why = explanation_of(communicator);
  return exception_of(YARD_UNAVAILABLE, why.empty() ? thrown.what() : why);
}

class InnerFailure {
 public:
  // The first counts.
  void note(const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!text_.empty()) {
      return;
    }
    text_ = without_stack(text);
    since_ = Clock::now();
  }
  // The text, when the library has had its time; nothing before, and without a failure.
  std::string unexplained(Clock::time_point now) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return now > since_ + kExplanation ? text_ : "";
  }

 private:
  std::mutex mutex_;
  std::string text_;
  Clock::time_point since_{};
};

// Who waits in it.
inline void wake(c10d::Work& inner) {
  try {
    inner.abort();
  } catch (const std::exception&) {  // as c10d's own does, which most backends leave as it is
  }
}

inline bool is_complete(c10d::Work& inner, InnerFailure& failure) {
  try {
    return inner.isCompleted();
  } catch (const std::exception& thrown) {
    failure.note(thrown.what());
    return false;
  }
}

}  // namespace trainyard::torch_shim
