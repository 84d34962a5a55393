// SPDX-License-Identifier: Apache-2.0
// The home of a server at work, as the tests of backup/ copy and check it.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "control/logs/log_store.h"
#include "control/tables/database.h"
#include "control/tables/schema.h"
#include "s3/directory/directory_store.h"
#include "server/backup/home_copy.h"

namespace trainyard::server {

inline Result<void> nobody_looks(const std::string&, std::uint64_t, std::uint64_t) {
  return {};
}

inline s3::ByteSource bytes_of(const std::string& content) {
  return [content, at = std::size_t{0}](std::span<std::byte> out) mutable -> Result<std::size_t> {
    const std::size_t count = std::min(out.size(), content.size() - at);
    std::memcpy(out.data(), content.data() + at, count);
    at += count;
    return count;
  };
}

// A home that is in use: its store, database and logs are open, as those of a running server.
class HomeInUse : public testing::Test {
 protected:
  HomeInUse() {
    EXPECT_TRUE(make_directories(home()));
    open();
    EXPECT_TRUE(store_->create_bucket("bucket"));
    put("a", "first");
    put("b", "second");
    log("one");
    EXPECT_TRUE(write_file(home() / "config.yaml", "capacity: {instances: 2}\n"));
    EXPECT_TRUE(write_file(home() / "server.json", "{}"));
    EXPECT_TRUE(make_directories(home() / "tls"));
    EXPECT_TRUE(write_file(home() / "tls" / "key.pem", "secret", 0600));
  }

  void open() {
    database_ =
        std::move(*control::Database::open(home() / "trainyard.db", control::schema_migrations()));
    store_ = std::move(*s3::DirectoryStore::open(home() / "objects", clock_, random_));
    logs_ = std::move(*control::LogStore::open(home() / "logs", clock_));
  }
  void put(const std::string& key, const std::string& content) {
    EXPECT_TRUE(store_->put("bucket", key, bytes_of(content), {}));
  }
  void log(const std::string& text) {
    EXPECT_TRUE(logs_->append("group", "stream", std::vector{control::LogEvent{.text = text}}));
  }
  static std::string get(s3::ObjectStore& store, const std::string& key) {
    auto reader = store.get("bucket", key, std::nullopt);
    if (!reader) {
      return reader.error().message;
    }
    std::vector<std::byte> buffer(4096);
    const auto count = (*reader)->read(buffer);
    return count ? std::string(reinterpret_cast<const char*>(buffer.data()), *count)
                 : count.error().message;
  }

  Path home() const { return folder_.path() / "home"; }
  Path backup() const { return folder_.path() / "backup"; }
  Path restored() const { return folder_.path() / "restored"; }
  Result<CopyCounts> make(const CopyProgress& progress = nobody_looks) {
    return make_backup(home(), backup(), clock_.now(), progress);
  }
  Result<CopyCounts> restore() { return restore_backup(backup(), restored(), nobody_looks); }
  // Any content file of the directory.
  static Path content_in(const Path& directory) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(directory / "objects" / "data")) {
      if (entry.is_regular_file()) {
        return entry.path();
      }
    }
    return {};
  }
  // Content files with something in them; others are names that wait for one.
  static std::size_t contents_in(const Path& directory) {
    std::size_t count = 0;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(directory / "objects" / "data")) {
      count += entry.is_regular_file() && entry.file_size() > 0 ? 1u : 0u;
    }
    return count;
  }
  std::vector<std::string> left_over() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TempDir folder_ = *TempDir::make();
  SystemClock clock_;
  SystemRandom random_;
  std::unique_ptr<control::Database> database_;
  std::unique_ptr<s3::DirectoryStore> store_;
  std::unique_ptr<control::LogStore> logs_;
};

}  // namespace trainyard::server
