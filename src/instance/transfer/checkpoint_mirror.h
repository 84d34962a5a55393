// SPDX-License-Identifier: Apache-2.0
// Keeps the checkpoint prefix equal to the checkpoint directory while the user's program runs. A
// thread of its own learns what has changed (checkpoint_watch.h, and a look at the whole tree every
// few seconds), asks checkpoint_plan.h what to do, and gives transfers to a few workers. It never
// stops for an error of the store: it goes on trying for as long as the job lasts.
//
// Several hosts write to one prefix, so each removes only objects that it has put or restored, and
// only while they are still the same. When two hosts write one name, the last one wins.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "instance/transfer/checkpoint_plan.h"
#include "instance/transfer/checkpoint_transfer.h"
#include "instance/transfer/checkpoint_tree.h"
#include "instance/transfer/checkpoint_voice.h"
#include "instance/transfer/checkpoint_watch.h"
#include "s3/object_store.h"

namespace trainyard::instance {

struct MirrorOptions {
  MirrorTimes times = {};
  std::size_t threads = 8;        // transfers at once
  Duration look_interval{2'000};  // at least; longer for trees that take long to look at
  Duration no_progress{60'000};   // of a flush: then it gives up
};

// That a process of the user's was killed, or has died of a signal.
struct Kill {
  WallTime at{};            // when it was known to be dead
  bool is_by_stop = false;  // of the stop that stopping() has announced, within its grace
};

struct MirrorParts {
  CheckpointPlace place;
  s3::ObjectStore& store;
  std::stop_source cancel;  // ends every call to the store
  Clock& clock;
  MirrorSinks sinks;  // called from the mirror's thread
  MirrorOptions options = {};
};

class CheckpointMirror {
 public:
  // `stored`: what restore_checkpoints() gave. Begins with a look at the tree.
  static Result<std::unique_ptr<CheckpointMirror>> start(MirrorParts parts,
                                                         const StoredFiles& stored);
  ~CheckpointMirror();  // breaks off what is under way

  // A stop is about to be told to the user's processes: notes which files they are writing. Waits
  // for that, but not for long.
  void stopping();
  // Something of the user's was killed: what it was writing does not replace an object.
  void killed(const Kill& kill);
  // Nothing of the user's runs any more: what is left is sent, without waiting for files to rest.
  // Gives up when nothing has moved for `no_progress`.
  void flush();
  void cancel();  // ends the flush as if it had given up, at once
  // True when the flush has ended. What was stored has then been saved for the next attempt.
  bool wait_for_end(Duration time);
  // After the end: whether everything is in S3.
  bool is_complete() const { return is_complete_; }

 private:
  struct Running {
    Upload upload;
    std::shared_ptr<std::atomic<bool>> is_pointless;
  };
  struct Finished {
    std::variant<Upload, Removal> what;
    TransferReport report;
  };
  struct HeardKill {
    Kill kill;
    SteadyTime at;  // when killed() was called: by then its files were closed
  };

  CheckpointMirror(MirrorParts parts, const StoredFiles& stored, Fd wake);
  void run();
  void wait_for_news(std::optional<SteadyTime> wake);
  void wake() const;
  void watch_anew();
  void watch(const std::string& directory);
  void take_news();
  void take(const TreeNews& news);
  void take_finished();
  void look();
  void take_kills();
  std::set<std::string> torn_by(const HeardKill& heard) const;
  std::set<std::string> written_now() const;
  bool is_being_written(const std::string& path) const;
  void enter(const std::string& directory, Writer writer);
  std::optional<SteadyTime> act();
  void start_upload(const Upload& upload);
  void start_removal(const Removal& removal);
  void finish(Finished finished);
  bool has_ended();
  void end(bool is_complete);
  SteadyTime now() const { return parts_.clock.steady_now(); }

  MirrorParts parts_;
  CheckpointTree tree_;
  Fd wake_;
  // The mirror thread's own.
  MirrorPlan plan_;
  CheckpointVoice voice_;
  std::unique_ptr<CheckpointWatch> watch_;
  std::vector<Running> uploads_;
  std::size_t running_ = 0;  // transfers of all kinds
  SteadyTime next_look_ = {};
  SteadyTime next_word_ = {};
  SteadyTime flush_began_ = {};
  bool is_whole_ = false;  // the last look has seen everything
  bool is_final_ = false;  // the flush has looked for the last time
  bool has_warned_ = false;
  std::set<std::string> written_at_stop_;

  UploadProgress progress_;
  std::atomic<bool> flush_wanted_ = false;
  std::atomic<bool> is_complete_ = false;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Finished> finished_ GUARDED_BY(mutex_);
  bool has_ended_ GUARDED_BY(mutex_) = false;
  int stops_wanted_ GUARDED_BY(mutex_) = 0;  // calls of stopping()
  int stops_taken_ GUARDED_BY(mutex_) = 0;
  std::vector<HeardKill> kills_ GUARDED_BY(mutex_);

  std::unique_ptr<WorkerPool> workers_;
  std::jthread thread_;
};

}  // namespace trainyard::instance
