// SPDX-License-Identifier: Apache-2.0
#include "instance/testing/checkpoint_fixture.h"

#include <filesystem>

#include "testing/s3_support.h"

namespace trainyard::instance {

namespace fs = std::filesystem;

void CheckpointFixture::SetUp() {
  auto store = s3::DirectoryStore::open(directory_.path() / "objects", clock_, random_);
  ASSERT_TRUE(store) << store.error().message;
  store_ = std::move(*store);
  ASSERT_TRUE(store_->create_bucket("bucket"));
  place_ = {.bucket = "bucket",
            .prefix = "ckpt/",
            .inside = "/opt/ml/checkpoints",
            .directory = scratch() / "checkpoints"};
  ASSERT_TRUE(make_directories(scratch()));
}

void CheckpointFixture::put(const std::string& key, const std::string& text) {
  const auto done = s3::put_text(*store_, "bucket", key, text);
  ASSERT_TRUE(done) << done.error().message;
}

std::map<std::string, std::string> CheckpointFixture::stored(const std::string& prefix) const {
  std::map<std::string, std::string> found;
  s3::ListQuery query{.prefix = prefix};
  for (bool more = true; more;) {
    const auto page = store_->list("bucket", query);
    EXPECT_TRUE(page);
    for (const s3::ObjectInfo& object : page->objects) {
      if (const auto text = s3::get_text(*store_, "bucket", object.key)) {
        found[object.key.substr(prefix.size())] = *text;
      }
    }
    more = page->truncated;
    query.after = page->next_after;
  }
  return found;
}

std::map<std::string, std::string> CheckpointFixture::tree() const {
  std::map<std::string, std::string> found;
  std::error_code failed;
  for (const auto& entry : fs::recursive_directory_iterator(place_.directory, failed)) {
    if (entry.symlink_status().type() == fs::file_type::regular) {
      found[entry.path().lexically_relative(place_.directory).string()] =
          read_file(entry.path()).value_or("(unreadable)");
    }
  }
  return found;
}

void CheckpointFixture::write(const std::string& path, const std::string& text) const {
  ASSERT_TRUE(make_directories((place_.directory / path).parent_path()));
  ASSERT_TRUE(write_file(place_.directory / path, text));
}

StoredFiles CheckpointFixture::restore() {
  Result<StoredFiles> restored = restore_checkpoints(place_, *store_, sinks(), {});
  EXPECT_TRUE(restored) << restored.error().message;
  return restored ? std::move(*restored) : StoredFiles();
}

ProgressSinks CheckpointFixture::sinks() {
  return {.message =
              [this](std::string text) {
                const MutexLock lock(mutex_);
                messages_.push_back(std::move(text));
              },
          .note =
              [this](std::string text) {
                const MutexLock lock(mutex_);
                notes_.push_back(std::move(text));
              }};
}

std::vector<std::string> CheckpointFixture::notes() const {
  const MutexLock lock(mutex_);
  return notes_;
}

std::vector<std::string> CheckpointFixture::messages() const {
  const MutexLock lock(mutex_);
  return messages_;
}

}  // namespace trainyard::instance
