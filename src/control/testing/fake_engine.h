// SPDX-License-Identifier: Apache-2.0
// An engine whose instances are entries in a map: tests read the tokens that they were started with
// and speak for them. It outlives the Control under test, as real machines do, so that a second
// Control finds what the first one started.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/engine.h"

namespace trainyard::control {

class FakeEngine final : public Engine {
 public:
  Result<GangNetwork> prepare(const GangRequest& request) override {
    const std::scoped_lock lock(mutex_);
    ++prepared_;
    gangs_.insert(request.id);
    GangNetwork network{.addresses = {}, .interface = "eth0", .server = "http://10.77.1.1:8321"};
    for (int i = 0; i < request.instances; ++i) {
      network.addresses.push_back("10.77.1." + std::to_string(i + 11));
    }
    return network;
  }

  Result<void> start(const GangId& id, const std::vector<InstanceStart>& instances) override {
    const std::scoped_lock lock(mutex_);
    if (!gangs_.contains(id)) {
      return Error{.code = Code::kNotFound,
                   .message = "the gang was not prepared",
                   .subject = std::string(kGangSubject)};
    }
    if (failing_starts_ > 0) {
      --failing_starts_;
      return start_error_;
    }
    for (const InstanceStart& instance : instances) {
      const auto is_host = [&](const RunningInstance& running) {
        return running.id == id && running.host == instance.host;
      };
      const auto found = std::find_if(running_.begin(), running_.end(), is_host);
      if (found != running_.end() && found->epoch == instance.epoch) {
        continue;
      }
      std::erase_if(running_, is_host);
      tokens_[{id.job, instance.host}] = instance.token;
      running_.push_back({.id = id, .host = instance.host, .alive = true, .epoch = instance.epoch});
    }
    return {};
  }

  Result<std::vector<RunningInstance>> list() override {
    const std::scoped_lock lock(mutex_);
    return running_;
  }

  Result<void> release(const GangId& id) override {
    const std::scoped_lock lock(mutex_);
    if (on_release_) {
      on_release_();
    }
    if (failing_releases_ > 0) {
      --failing_releases_;
      return Error{.code = Code::kDeadline, .message = "the network is locked"};
    }
    released_.push_back(id);
    gangs_.erase(id);
    std::erase_if(running_, [&](const RunningInstance& instance) { return instance.id == id; });
    return {};
  }

  void on_exit(std::function<void(const RunningInstance&)> callback) override {
    const std::scoped_lock lock(mutex_);
    callback_ = std::move(callback);
  }

  // --- For tests ---

  // The next `times` starts, or all.
  void fail_starts_with(Error error, int times = std::numeric_limits<int>::max()) {
    const std::scoped_lock lock(mutex_);
    start_error_ = std::move(error);
    failing_starts_ = times;
  }
  void fail_releases(int times) {
    const std::scoped_lock lock(mutex_);
    failing_releases_ = times;
  }
  // Called at the beginning of each release.
  void on_release(std::function<void()> callback) {
    const std::scoped_lock lock(mutex_);
    on_release_ = std::move(callback);
  }
  // The supervisor of this instance dies.
  void kill(const std::string& job, const std::string& host) {
    const auto dead = vanish(job, host);
    if (dead) {
      const auto callback = [&] {
        const std::scoped_lock lock(mutex_);
        return callback_;
      }();
      callback(*dead);
    }
  }
  // The same while nobody watches.
  std::optional<RunningInstance> vanish(const std::string& job, const std::string& host) {
    const std::scoped_lock lock(mutex_);
    const auto found =
        std::find_if(running_.begin(), running_.end(), [&](const RunningInstance& instance) {
          return instance.id.job == job && instance.host == host;
        });
    if (found == running_.end()) {
      return std::nullopt;
    }
    RunningInstance dead = *found;
    running_.erase(found);
    dead.alive = false;
    return dead;
  }
  // As that of another machine: it has never heard of any gang.
  void forget_all() {
    const std::scoped_lock lock(mutex_);
    gangs_.clear();
    running_.clear();
  }
  std::string token(const std::string& job, const std::string& host) {
    const std::scoped_lock lock(mutex_);
    const auto found = tokens_.find({job, host});
    return found == tokens_.end() ? std::string() : found->second;
  }
  std::size_t running(const std::string& job) {
    const std::scoped_lock lock(mutex_);
    return static_cast<std::size_t>(
        std::count_if(running_.begin(), running_.end(),
                      [&](const RunningInstance& instance) { return instance.id.job == job; }));
  }
  bool was_released(const GangId& id) {
    const std::scoped_lock lock(mutex_);
    return std::find(released_.begin(), released_.end(), id) != released_.end();
  }
  int prepared() {
    const std::scoped_lock lock(mutex_);
    return prepared_;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::string> tokens_;
  std::set<GangId> gangs_;
  std::vector<RunningInstance> running_;
  std::vector<GangId> released_;
  Error start_error_;
  int failing_starts_ = 0;
  int failing_releases_ = 0;
  std::function<void(const RunningInstance&)> callback_;
  std::function<void()> on_release_;
  int prepared_ = 0;
};

}  // namespace trainyard::control
