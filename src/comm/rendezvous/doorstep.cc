// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/doorstep.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "comm/rendezvous/sockets.h"

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRest{100};   // after a connection that this process has no descriptor for
constexpr milliseconds kFair{1000};  // in which a rank greets, and nobody has to make room

}  // namespace

void Doorstep::list(std::vector<pollfd>& entries) const {
  const bool is_closed = Clock::now() < opens_at();
  entries.push_back(
      {.fd = listener_, .events = is_closed ? short{0} : short{POLLIN}, .revents = 0});
  for (const Stranger& one : strangers_) {
    entries.push_back({.fd = one.link.fd(), .events = POLLIN, .revents = 0});
  }
}

milliseconds Doorstep::patience() const {
  const auto now = Clock::now();
  auto next = strangers_.empty() ? Clock::time_point::max() : strangers_.front().end;
  if (now < opens_at()) {
    next = std::min(next, opens_at());
  }
  return next == Clock::time_point::max()
             ? milliseconds(-1)
             : std::max(milliseconds(0), std::chrono::ceil<milliseconds>(next - now));
}

std::vector<Doorstep::Guest> Doorstep::look(std::span<const pollfd> entries) {
  std::vector<Guest> guests;
  const auto now = Clock::now();
  std::size_t index = 1;
  for (auto one = strangers_.begin(); one != strangers_.end();) {
    const bool has_news = entries[index++].revents != 0;
    const bool stays = has_news ? hear(*one, guests) : true;
    one = stays && now < one->end ? std::next(one) : strangers_.erase(one);
  }
  if (entries.front().revents != 0 && now >= opens_at()) {
    accept_some();
  }
  return guests;
}

// What is no message of ours is answered with one, from which another version of this library
// learns the version of this one.
bool Doorstep::hear(Stranger& stranger, std::vector<Guest>& guests) {
  auto word = stranger.link.look();
  if (!word) {
    if (word.error().code != Code::kUnavailable) {
      stranger.link.send({"error", word.error().message});
      complain(word.error());
    }
    return false;
  }
  if (!word->has_value()) {
    return true;
  }
  guests.push_back({std::move(stranger.link), std::move((*word)->fields)});
  return false;
}

// When all places are taken, the oldest makes room, once he has had time to greet: of many ranks
// that come at once, some wait at the listener meanwhile.
Doorstep::Clock::time_point Doorstep::opens_at() const {
  return strangers_.size() < kMaxStrangers
             ? rests_until_
             : std::max(rests_until_, strangers_.front().end - kGreetingTime + kFair);
}

void Doorstep::accept_some() {
  if (strangers_.size() >= kMaxStrangers) {
    strangers_.pop_front();
  }
  while (strangers_.size() < kMaxStrangers) {
    auto fd = accept_one(listener_);
    if (!fd) {
      complain(fd.error());
      if (!strangers_.empty()) {
        strangers_.pop_front();
      }
      rests_until_ = Clock::now() + kRest;
      return;
    }
    if (!fd->is_open()) {
      return;
    }
    strangers_.push_back({ControlLink(std::move(*fd), most_bytes_), Clock::now() + kGreetingTime});
  }
}

// Once: who makes noise shall not fill the log.
void Doorstep::complain(const Error& error) {
  if (!std::exchange(has_complained_, true)) {
    log_warning("comm: a connection was closed before its greeting, and more may be: " +
                error.message);
  }
}

}  // namespace trainyard::comm
