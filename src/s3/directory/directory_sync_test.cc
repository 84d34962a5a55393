// SPDX-License-Identifier: Apache-2.0
// What the store syncs, in which order, and what it does when that fails. The C library's fsync,
// fdatasync and syncfs are defined here: they pass on to the kernel, but a test may listen, or let
// them fail.
#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mutex.h"
#include "s3/directory/content_files.h"
#include "s3/directory/directory_store.h"
#include "s3/directory/index.h"
#include "testing/s3_support.h"

namespace trainyard::s3 {
namespace {

// Called before a file or folder is synced; false lets it fail. By any thread, one at a time.
using OnSync = std::function<bool(const std::string& path)>;

Mutex on_sync_mutex;
OnSync on_sync GUARDED_BY(on_sync_mutex);

int sync_with(long number, int fd) {
  {
    const MutexLock lock(on_sync_mutex);
    std::error_code ignored;
    if (on_sync &&
        !on_sync(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), ignored)
                     .string())) {
      errno = EIO;
      return -1;
    }
  }
  return static_cast<int>(::syscall(number, fd));
}

}  // namespace
}  // namespace trainyard::s3

extern "C" int fsync(int fd) {
  return trainyard::s3::sync_with(SYS_fsync, fd);
}
extern "C" int fdatasync(int fd) {
  return trainyard::s3::sync_with(SYS_fdatasync, fd);
}
extern "C" int syncfs(int fd) noexcept {
  return trainyard::s3::sync_with(SYS_syncfs, fd);
}

namespace trainyard::s3 {
namespace {

struct DirectorySync : StoreFixture {
  ~DirectorySync() override { listen({}); }

  static void listen(OnSync listener) {
    const MutexLock lock(on_sync_mutex);
    on_sync = std::move(listener);
  }
  // Rather than a folder of them.
  static bool is_content(const Path& path) {
    return path.string().find("/data/") != std::string::npos &&
           std::filesystem::is_regular_file(path);
  }
  Path root() const { return folder.path() / "store"; }
  std::ptrdiff_t names_in_data() const {
    return std::count_if(std::filesystem::recursive_directory_iterator(root() / "data"), {},
                         [](const auto& entry) { return entry.is_regular_file(); });
  }
  Path after() const { return folder.path() / "after"; }

  // The store as the end of its process now leaves it: the record of the last put stands.
  void end_process() const {
    std::filesystem::copy(root(), after(), std::filesystem::copy_options::recursive);
  }
  Result<std::unique_ptr<DirectoryStore>> open_after() {
    return DirectoryStore::open(after(), clock, random);
  }
  // That of the put which is not settled.
  Path last_content() const {
    const auto changes = Index::open(after() / "index.db").value()->unconfirmed();
    const std::string id = changes.value().at(0).content;
    return after() / "data" / id.substr(0, 2) / id;
  }
};

TEST_F(DirectorySync, AContentThatWasOnlyInMemoryIsSyncedBeforeItsRecordGoes) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "old"));
  ASSERT_TRUE(put_text(*store, "bucket", "k", "new"));
  end_process();
  const Path content = last_content();
  bool synced = false;
  listen([&](const std::string& path) {
    synced |= path == content;
    return path != content;
  });
  EXPECT_FALSE(open_after());
  EXPECT_TRUE(synced);
  listen({});
  EXPECT_EQ(get_text(**open_after(), "bucket", "k").value_or("?"), "new");
}

TEST_F(DirectorySync, AContentThatCannotBeReadNowIsNotTorn) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "old"));
  ASSERT_TRUE(put_text(*store, "bucket", "k", "new"));
  end_process();
  const Path content = last_content();
  std::filesystem::rename(content, folder.path() / "kept");
  std::filesystem::create_symlink(content, content);
  const auto opened = open_after();
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find(content.string()), std::string::npos);
  std::filesystem::remove(content);
  std::filesystem::rename(folder.path() / "kept", content);
  EXPECT_EQ(get_text(**open_after(), "bucket", "k").value_or("?"), "new");
}

TEST_F(DirectorySync, AKeyThatIsRevokedWhileALargeContentIsSyncedReplacesNothing) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "of the new attempt"));
  bool revoked = false;
  listen([&](const std::string& path) {
    revoked |= is_content(path);
    return true;
  });
  const auto put =
      put_text(*store, "bucket", "k", long_text(std::size_t{5} << 20), {.before_visible = [&] {
        return revoked ? Error{Code::kDenied, "revoked"} : Result<void>();
      }});
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Code::kDenied);
  EXPECT_TRUE(revoked);
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "of the new attempt");
  EXPECT_EQ(content_files(), 1u);
}

TEST_F(DirectorySync, ACopyIsNamedInIncomingBeforeInData) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "x"));
  const auto before = names_in_data();
  bool synced = false;
  listen([&](const std::string& path) {
    if (path == root() / "incoming") {
      synced = true;
      EXPECT_EQ(names_in_data(), before);
    }
    return true;
  });
  ASSERT_TRUE(store->copy("bucket", "k", "bucket", "copy", {}));
  listen({});
  EXPECT_TRUE(synced);
  EXPECT_GT(names_in_data(), before);
}

TEST_F(DirectorySync, APutWhoseSyncFailsLeavesTheOldObject) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "old"));
  listen([](const std::string& path) { return !is_content(path); });
  EXPECT_FALSE(put_text(*store, "bucket", "k", "new"));
  listen({});
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "old");
  EXPECT_EQ(content_files(), 1u);
}

// SQLite has written its log then, and finds the change there after a crash.
TEST_F(DirectorySync, AChangeWhoseSyncFailedIsWholeOrNotThereAfterACrash) {
  const std::string large = long_text(std::size_t{5} << 20);
  ASSERT_TRUE(put_text(*store, "bucket", "k", "old"));
  ASSERT_TRUE(put_text(*store, "bucket", "source", large));
  ASSERT_TRUE(put_text(*store, "bucket", "copied", "old"));
  bool failed = false;
  const auto fail = [&](const std::string& path) {
    failed |= path.ends_with("-wal");
    return !path.ends_with("-wal");
  };
  listen(fail);
  EXPECT_FALSE(put_text(*store, "bucket", "k", large));
  EXPECT_TRUE(failed);
  end_process();
  listen({});
  const std::string found = get_text(**open_after(), "bucket", "k").value_or("?");
  EXPECT_TRUE(found == "old" || found == large) << found.substr(0, 100);

  std::filesystem::remove_all(after());
  listen(fail);
  EXPECT_FALSE(store->copy("bucket", "source", "bucket", "copied", {}));
  end_process();
  listen({});
  const std::string copied = get_text(**open_after(), "bucket", "copied").value_or("?");
  EXPECT_TRUE(copied == "old" || copied == large) << copied.substr(0, 100);
  // Without a crash nothing has happened, and what was left goes with the next start.
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "old");
  ASSERT_TRUE(put_text(*store, "bucket", "k", "new"));
  reopen();
  EXPECT_EQ(content_files(), 3u);
}

TEST_F(DirectorySync, EveryFolderOfContentsIsDurableWhenTheStoreIsOpen) {
  std::ptrdiff_t folders = 0;
  listen([&](const std::string& path) {
    if (path == after() / "data") {
      folders = std::distance(std::filesystem::directory_iterator(path), {});
    }
    return true;
  });
  ASSERT_TRUE(open_after());
  EXPECT_EQ(folders, 256);
}

LocalFile file_to_adopt(const Path& path) {
  LocalFile file{.key = "k", .fd = open_file(path, O_RDONLY).value(), .size = 1};
  struct stat status {};
  EXPECT_EQ(::fstat(file.fd.get(), &status), 0);
  file.modified = status.st_mtim;
  return file;
}

// As the object "k".
Result<AdoptedFiles> adopt_file(DirectoryStore& store, const Path& path) {
  return store.adopt_files("bucket", [&path, given = false]() mutable {
    return std::exchange(given, true) ? std::nullopt : std::optional(file_to_adopt(path));
  });
}

// The kernel tells a descriptor of errors since it was opened: one of the store's root, opened at
// the end, would hear of none.
TEST_F(DirectorySync, AnImportIsSyncedByWhatWasOpenBeforeItsFirstByte) {
  const Path file = folder.path() / "file";
  ASSERT_TRUE(write_file(file, "x"));
  listen([&](const std::string& path) { return Path(path).parent_path() != root() / "data"; });
  EXPECT_FALSE(adopt_file(*store, file));
  listen({});
  EXPECT_FALSE(store->head("bucket", "k"));
  EXPECT_EQ(content_files(), 0u);
  EXPECT_TRUE(adopt_file(*store, file));
}

TEST_F(DirectorySync, AnImportWhoseSyncFailedIsWholeOrNotThereAfterACrash) {
  const Path file = folder.path() / "file";
  ASSERT_TRUE(write_file(file, "x"));
  ASSERT_TRUE(put_text(*store, "bucket", "k", "old"));
  listen([](const std::string& path) { return !path.ends_with("-wal"); });
  EXPECT_FALSE(adopt_file(*store, file));
  end_process();
  listen({});
  const std::string found = get_text(**open_after(), "bucket", "k").value_or("?");
  EXPECT_TRUE(found == "old" || found == "x") << found;
  // Without a crash nothing has happened, and what was left goes with the next start.
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "old");
  ASSERT_TRUE(put_text(*store, "bucket", "k", "new"));
  reopen();
  EXPECT_EQ(content_files(), 1u);
}

TEST(DiskError, SaysNothingAboutTheClientsRights) {
  EXPECT_EQ(disk_error("opening", EACCES).code, Code::kInternal);
  EXPECT_EQ(disk_error("opening", EROFS).code, Code::kInternal);
  EXPECT_EQ(disk_error("opening", ELOOP).code, Code::kInternal);
  EXPECT_EQ(disk_error("opening", EMFILE).code, Code::kUnavailable);
  EXPECT_EQ(disk_error("opening", ENFILE).code, Code::kUnavailable);
  EXPECT_EQ(disk_error("opening", ENOSPC).code, Code::kExhausted);
  EXPECT_EQ(disk_error("opening", ENOENT).code, Code::kNotFound);
  EXPECT_EQ(disk_error("opening", EIO).code, Code::kUnavailable);
}

}  // namespace
}  // namespace trainyard::s3
