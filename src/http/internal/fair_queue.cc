// SPDX-License-Identifier: Apache-2.0
#include "http/internal/fair_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace trainyard::http {

bool FairQueue::push(const std::string& client, Task& task, Room room) {
  const auto found = clients_.find(client);
  const std::size_t has = found == clients_.end() ? 0 : found->second.waiting.size();
  if (room == Room::kShare && has >= max_waiting_ - room_taken_) {
    return false;
  }
  Entry& entry = found == clients_.end() ? *clients_.try_emplace(client).first : *found;
  entry.second.waiting.push_back({.task = std::move(task), .room = room});
  ++waiting_;
  room_taken_ += room == Room::kShare ? 1 : 0;
  if (has == 0) {
    turns_.push_back(&entry);
  }
  return true;
}

std::optional<FairQueue::Next> FairQueue::pop() {
  const auto turn =
      std::ranges::find_if(turns_, [this](const Entry* one) { return may_run(one->second); });
  if (turn == turns_.end()) {
    return std::nullopt;
  }
  Entry* const entry = *turn;
  turns_.erase(turn);  // who was passed over keeps its place
  Client& client = entry->second;
  Waiting& first = client.waiting.front();
  room_taken_ -= first.room == Room::kShare ? 1 : 0;
  Next next{.client = entry->first, .task = std::move(first.task)};
  client.waiting.pop_front();
  --waiting_;
  ++client.running;
  ++running_;
  if (!client.waiting.empty()) {
    turns_.push_back(entry);
  }
  return next;
}

bool FairQueue::begin(const std::string& client) {
  const auto found = clients_.find(client);
  if (waiting_ > 0 || !may_run(found == clients_.end() ? Client() : found->second)) {
    return false;
  }
  ++(found == clients_.end() ? clients_[client] : found->second).running;
  ++running_;
  return true;
}

void FairQueue::done(const std::string& client) {
  const auto found = clients_.find(client);
  YARD_CHECK(found != clients_.end() && found->second.running > 0,
             "a task ended that was not running, of " + client);
  --found->second.running;
  --running_;
  if (found->second.running == 0 && found->second.waiting.empty()) {
    clients_.erase(found);
  }
}

bool FairQueue::has_ready() const {
  return std::ranges::any_of(turns_, [this](const Entry* one) { return may_run(one->second); });
}

}  // namespace trainyard::http
