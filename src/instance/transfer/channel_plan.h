// SPDX-License-Identifier: Apache-2.0
// Decides which objects of an S3 prefix become which files of a File-mode channel on this host.
// Pure; channels.cc lists and downloads. The rules:
//   - every object whose key begins with the prefix, as text, belongs to the channel: `train` also
//     takes train2/x, and the plan then carries a warning
//   - the path is the key below the prefix; where the prefix ends inside a name, the whole name is
//     kept (data/train and data/train-a.csv give train-a.csv)
//   - an object with exactly the prefix as its key, and none below it, is the whole channel
//   - a key that ends in '/' and is empty is a directory
//   - where x and x/y both exist the directory wins, and x is reported
//   - a key that cannot be a path (..., an empty or over-long part, NUL) is an error by name
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trainyard::instance {

struct ChannelObject {
  std::string key;
  std::uint64_t size = 0;
};

struct PlannedFile {
  std::string key;
  std::string path;  // below the channel's directory
  std::uint64_t size = 0;

  bool operator==(const PlannedFile&) const = default;
};

struct ChannelPlan {
  std::vector<PlannedFile> files;        // of this host
  std::vector<std::string> directories;  // empty ones that the keys name
  std::vector<std::string> left_out;     // keys of objects that no file is made of
  std::vector<std::string> warnings;     // for the job's log; they name those, too
};

// Which of the hosts sharing a channel this one is.
struct Shard {
  int hosts = 1;
  int index = 0;
};

// Object i of the sorted keys goes to host i mod n: shards are disjoint, complete, and differ by at
// most one object.
template <typename T>
std::vector<T> shard_of(const std::vector<T>& sorted, Shard shard) {
  std::vector<T> own;
  for (auto i = static_cast<std::size_t>(shard.index); i < sorted.size();
       i += static_cast<std::size_t>(shard.hosts)) {
    own.push_back(sorted[i]);
  }
  return own;
}

// The local path of a key; kInvalidArgument says why there is none.
Result<std::string> local_path(std::string_view prefix, std::string_view key);

// What the job's StatusMessage says of objects that are left out; empty without any.
std::string left_out_remark(const std::string& channel, const std::vector<std::string>& keys);

// `objects` in S3's order, every key beginning with `prefix`.
Result<ChannelPlan> plan_channel(const std::string& channel, std::string_view prefix,
                                 const std::vector<ChannelObject>& objects, Shard shard);

}  // namespace trainyard::instance
