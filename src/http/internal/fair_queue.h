// SPDX-License-Identifier: Apache-2.0
// Which waiting task runs next, so that nobody who asks much keeps those who ask little from their
// answer. A pure value: workers.h runs what it says. Clients take turns. One client may have as
// many tasks running as workers are free beside it, and as many waiting as there is room left
// beside them: alone it gets half, two get a third each, and there is always some for the next to
// come. (Dynamic thresholds with factor 1: Choudhury and Hahne, IEEE/ACM Trans. Networking 6(2),
// 1998.)
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

namespace trainyard::http {

class FairQueue {
 public:
  using Task = std::function<void()>;
  struct Next {
    std::string client;
    Task task;
  };

  FairQueue(std::size_t workers, std::size_t max_waiting)
      : workers_(workers), max_waiting_(max_waiting) {}

  // kNotNeeded: the task belongs to something that has begun, and takes no room from new ones.
  enum class Room { kShare, kNotNeeded };
  // False when the client's share of the room is used up; the task is then untouched.
  bool push(const std::string& client, Task& task, Room room = Room::kShare);
  // The next in turn, which counts as running until done(); nothing while those who wait have used
  // up their shares.
  std::optional<Next> pop();
  void done(const std::string& client);
  // Counts a task that never waited as running until done(). False when others wait, or the
  // client's share is used up.
  bool begin(const std::string& client);

  bool has_ready() const;
  std::size_t waiting() const { return waiting_; }

 private:
  struct Waiting {
    Task task;
    Room room;
  };
  struct Client {
    std::deque<Waiting> waiting;
    std::size_t running = 0;
  };
  // References to elements of an unordered_map last as long as the element.
  using Entry = std::pair<const std::string, Client>;

  bool may_run(const Client& client) const { return client.running < workers_ - running_; }

  const std::size_t workers_;
  const std::size_t max_waiting_;
  std::unordered_map<std::string, Client> clients_;  // those with anything waiting or running
  std::deque<Entry*> turns_;                         // those with anything waiting
  std::size_t waiting_ = 0;
  std::size_t room_taken_ = 0;
  std::size_t running_ = 0;  // of all, at most workers_
};

}  // namespace trainyard::http
