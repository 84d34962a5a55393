// SPDX-License-Identifier: Apache-2.0
// For tests only: a checkpoint directory and a store on this machine's disk.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/random.h"
#include "instance/transfer/checkpoint_restore.h"
#include "s3/directory/directory_store.h"

namespace trainyard::instance {

class CheckpointFixture : public testing::Test {
 protected:
  void SetUp() override;

  Path scratch() const { return directory_.path() / "scratch"; }
  void put(const std::string& key, const std::string& text);
  // The objects below "ckpt/", or another prefix, by the rest of their keys.
  std::map<std::string, std::string> stored(const std::string& prefix = "ckpt/") const;
  // The regular files of the checkpoint directory.
  std::map<std::string, std::string> tree() const;
  void write(const std::string& path, const std::string& text) const;

  StoredFiles restore();
  ProgressSinks sinks();
  std::vector<std::string> notes() const;
  std::vector<std::string> messages() const;

  SystemClock clock_;
  SystemRandom random_;
  // In memory: these tests write many files.
  TempDir directory_ = *TempDir::make("trainyard-checkpoints-", "/dev/shm");
  std::unique_ptr<s3::DirectoryStore> store_;
  CheckpointPlace place_;

 private:
  mutable Mutex mutex_;
  std::vector<std::string> notes_;
  std::vector<std::string> messages_;
};

}  // namespace trainyard::instance
