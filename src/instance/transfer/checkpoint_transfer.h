// SPDX-License-Identifier: Apache-2.0
// One transfer of a mirror: a file to its object, or the removal of an object whose file has gone.
// Reads through checkpoint_tree.h, judges how it ended in the words of checkpoint_plan.h. Called
// from several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "instance/transfer/checkpoint_plan.h"
#include "instance/transfer/checkpoint_tree.h"
#include "s3/object_store.h"

namespace trainyard::instance {

struct TransferReport {
  TransferEnd end;
  std::string why;  // of any end but kDone, for a person
};

// How far uploads are, where that is certain. The same content that is sent anew after an error is
// progress once more, and again, but not for ever: a store may fail far into a file, or always
// there. After kRepeats only what goes beyond the farthest point so far counts.
class UploadProgress {
 public:
  static constexpr int kRepeats = 3;
  // S3Client reads two parts before the store has acknowledged one; main.cc has their size.
  static constexpr std::uint64_t kReadAhead = std::uint64_t{16} << 20;

  explicit UploadProgress(Clock& clock) : clock_(clock), last_(clock.steady_now()) {}

  void begin(const std::string& path, const FileState& content);
  void read(const std::string& path, std::uint64_t bytes);  // of its body so far
  // Its body is read to the end. What a store then does, it may do for long and without a word: it
  // joins the parts. That is progress until done() or failed(), and the tries of the call bound it.
  void completing(const std::string& path);
  void done(const std::string& path);
  void failed(const std::string& path);
  void forget_all_but(const std::map<std::string, FileState>& files);  // those that are there
  SteadyTime last() const;

 private:
  struct Mark {
    FileState content = {};
    int repeats = 0;
    std::uint64_t farthest = kReadAhead;
  };

  Clock& clock_;
  mutable Mutex mutex_;
  SteadyTime last_ GUARDED_BY(mutex_);
  std::map<std::string, Mark> marks_ GUARDED_BY(mutex_);
  std::set<std::string> completing_ GUARDED_BY(mutex_);
};

struct UploadHooks {
  std::function<bool()> is_pointless;  // asked between reads
  UploadProgress& progress;
};

TransferReport send_file(const CheckpointTree& tree, s3::ObjectStore& store, const Upload& upload,
                         const UploadHooks& hooks);

// Removes the object only while the file is absent and the object is the one that this host knows:
// another host may have put a newer one at the same key.
TransferReport remove_object(const CheckpointTree& tree, s3::ObjectStore& store,
                             const Removal& removal);

}  // namespace trainyard::instance
