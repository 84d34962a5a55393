// SPDX-License-Identifier: Apache-2.0
// Downloads many objects into files with a few threads: each streams into a staging file and
// appears under its name whole. The caller has decided what goes where, and has made the folders.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/result.h"
#include "s3/object_store.h"

namespace trainyard::instance {

// What is told while a transfer goes on.
struct ProgressSinks {
  std::function<void(std::string)> message;  // the job's StatusMessage, every few seconds
  std::function<void(std::string)> note;     // a line in the job's log
};

struct Download {
  std::string key;
  std::string path;  // below the directory
  std::uint64_t size = 0;
};

struct DownloadJob {
  std::string what;  // "Downloading input data: channel train", begins each message
  std::string bucket;
  Path directory;
  Path staging;  // on the same file system as `directory`; made, and removed at the end
  // Called for each file once it is in place, from the thread that has brought it.
  std::function<Result<void>(const Download&, const s3::ObjectInfo&)> arrived = {};
  // Called likewise for an object that is not there any more, and then it is no error.
  std::function<void(const Download&)> gone = {};
};

// Messages come from the calling thread, unless it has to do the work: the machine may have no
// other thread to give. The first error ends it, naming the key.
Result<void> download_all(const DownloadJob& job, const std::vector<Download>& files,
                          s3::ObjectStore& store, const ProgressSinks& sinks,
                          const std::stop_token& stop);

}  // namespace trainyard::instance
