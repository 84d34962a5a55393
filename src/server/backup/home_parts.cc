// SPDX-License-Identifier: Apache-2.0
#include "server/backup/home_parts.h"

#include <algorithm>
#include <set>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "s3/directory/kept_back.h"
#include "server/backup/store_index.h"
#include "sql/connection.h"

namespace trainyard::server {
namespace {

// One does, unless the store cannot keep what it names: one of an older program, or on a file
// system without locks. Each copies what changed while the last one ran.
constexpr int kIndexCopies = 20;

bool is_folder(const Path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(std::filesystem::symlink_status(path, ignored));
}

Result<void> copy_bytes(const Fd& source, const Path& to) {
  YARD_TRY(const Fd target, open_file(to, O_WRONLY | O_CREAT | O_EXCL, 0600));
  return copy_rest(source.get(), target.get());
}

class HomeParts {
 public:
  HomeParts(const PlainFiles& from, Path to, uid_t owner, const CopyProgress& progress)
      : from_(from), to_(std::move(to)), owner_(owner), progress_(progress) {}

  Result<CopyCounts> run() {
    YARD_TRY(kind_, kind_of(from_));
    if (kind_.has_jobs) {
      YARD_TRY(copy_database("trainyard.db", "trainyard.db"));
    }
    YARD_TRY(copy_objects());
    if (kind_.has_jobs) {
      YARD_TRY(copy_logs());
      YARD_TRY(copy_settings());
    }
    return counts_;
  }

 private:
  // SQLite opens by name: whatever it may open is looked at first.
  Result<void> copy_database(const Path& name, const Path& copy) {
    YARD_TRY(from_.size_of(name));
    for (const char* beside : {"-wal", "-shm", "-journal"}) {
      const auto found = from_.size_of(name.string() + beside);
      if (!found && found.error().code != Code::kNotFound) {
        return found.error();
      }
    }
    YARD_TRY(sql::Connection source,
             sql::Connection::open(from_.root() / name, sql::Access::kRead));
    return source.copy_to(to_ / copy);
  }

  Path index_copy(int number) const { return kind_.objects / fmt::format("index.db.{}", number); }

  // Until it is closed the store removes nothing that a copy of its index names. None is no error.
  Fd pin_contents() const {
    auto pins = from_.open_plain(kind_.objects / s3::kPinsFile);
    return pins && s3::pin_contents(*pins) ? *std::move(pins) : Fd();
  }

  Result<void> copy_objects() {
    const Fd pin = pin_contents();
    YARD_TRY(make_directories(to_ / kind_.objects / "data", 0700));
    std::set<std::string> gone;  // named by the newest copy of the index, and not there
    int copy = 0;
    do {
      if (copy == kIndexCopies) {
        return Error{Code::kUnavailable,
                     fmt::format("{} objects were replaced again and again while they were copied: "
                                 "try again when the server has less to do",
                                 gone.size())};
      }
      YARD_TRY(copy_database(kind_.objects / "index.db", index_copy(copy)));
      YARD_TRY(link_contents(copy, gone));
      ++copy;
    } while (!gone.empty());
    YARD_TRY(keep_last_index(copy - 1));
    return copy_if_plain(kind_.objects / "credentials");  // of `trainyard store`
  }

  // The first time all, later those that are new.
  Result<void> link_contents(int number, std::set<std::string>& gone) {
    YARD_TRY(StoreIndex index, StoreIndex::open(to_ / index_copy(number)));
    YARD_TRY(const StoreIndex::Totals totals, index.totals());
    counts_.contents = totals.contents;
    counts_.bytes = totals.bytes;
    std::uint64_t done = 0;
    const auto take = [&](const StoredContent& content) -> Result<void> {
      const auto source = from_.open_plain(content_path(kind_.objects, content.id));
      if (source) {
        YARD_TRY(link_or_copy(*source, to_ / content_path(kind_.objects, content.id)));
      } else if (source.error().code == Code::kNotFound) {
        gone.insert(content.id);
      } else {
        return source.error();
      }
      return progress_("objects", ++done, totals.contents);
    };
    const std::set<std::string> before = std::exchange(gone, {});
    if (number == 0) {
      return index.each(take);
    }
    YARD_TRY(index.each_not_in(to_ / index_copy(number - 1), take));
    for (const std::string& id : before) {
      YARD_TRY(const bool is_named, index.names(id));
      if (is_named) {  // and still not there: the store itself has lost it
        return Error{Code::kCorrupt,
                     "the object store lacks its content file " + id + ": run `trainyard check`"};
      }
    }
    return {};
  }

  // Contents never change, so that a second name is as good as a copy. The name is given to the
  // file that was opened, whatever stands in its place by now.
  Result<void> link_or_copy(const Fd& source, const Path& to) {
    if (folders_.insert(to.parent_path()).second) {
      YARD_TRY(make_directories(to.parent_path(), 0700));
    }
    struct stat status {};
    const std::string file = fmt::format("/proc/self/fd/{}", source.get());
    const bool is_linked =
        ::fstat(source.get(), &status) == 0 && status.st_uid == owner_ &&
        ::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) == 0;
    return is_linked ? Result<void>() : copy_bytes(source, to);
  }

  // And removes what only the earlier copies have named.
  Result<void> keep_last_index(int last) {
    for (int number = 0; number < last; ++number) {
      YARD_TRY(StoreIndex index, StoreIndex::open(to_ / index_copy(number)));
      YARD_TRY(index.each_not_in(to_ / index_copy(last), [&](const StoredContent& content) {
        ::unlink((to_ / content_path(kind_.objects, content.id)).c_str());
        return Result<void>();
      }));
      ::unlink((to_ / index_copy(number)).c_str());
    }
    const Path index = to_ / kind_.objects / "index.db";
    if (::rename((to_ / index_copy(last)).c_str(), index.c_str()) != 0) {
      return errno_error("naming the copy of the index", errno);
    }
    return {};
  }

  Result<void> copy_logs() {
    YARD_TRY(const auto groups, entries_of(from_.root() / "logs"));
    YARD_TRY(make_directories(to_ / "logs", 0700));
    for (const Path& group : groups) {
      if (!is_folder(group)) {
        continue;
      }
      const Path name = "logs" / group.filename();
      YARD_TRY(make_directories(to_ / name, 0700));
      YARD_TRY(const auto streams, entries_of(group));
      for (const Path& stream : streams) {
        YARD_TRY(is_folder(stream) ? copy_stream(name / stream.filename())
                                   : copy_if_plain(name / stream.filename()));
      }
    }
    return {};
  }

  // The newest segment grows meanwhile, and may even be sealed: what is listed now is copied in
  // order, so that the copy is what the stream was at one moment. An index is copied only of those
  // that were sealed before.
  Result<void> copy_stream(const Path& name) {
    YARD_TRY(make_directories(to_ / name, 0700));
    YARD_TRY(auto files, entries_of(from_.root() / name));
    std::erase_if(files, [](const Path& file) { return file.extension() != ".log"; });
    for (std::size_t i = 0; i < files.size(); ++i) {
      const Path segment = name / files[i].filename();
      YARD_TRY(const Fd source, from_.open_plain(segment));
      YARD_TRY(copy_bytes(source, to_ / segment));
      if (i + 1 < files.size()) {
        YARD_TRY(copy_if_plain(Path(segment).replace_extension(".idx")));
      }
      YARD_TRY(progress_("logs", ++counts_.log_files, 0));
    }
    return {};
  }

  // By name: what else people keep in a home, such as its backups, is theirs.
  Result<void> copy_settings() {
    YARD_TRY(copy_if_plain("config.yaml"));
    YARD_TRY(copy_if_plain("credentials"));
    YARD_TRY(const auto certificate, entries_of(from_.root() / "tls"));
    for (const Path& file : certificate) {
      YARD_TRY(make_directories(to_ / "tls", 0700));
      YARD_TRY(copy_if_plain("tls" / file.filename()));
    }
    return {};
  }

  // What is no plain file here, no server has made; what has gone, one has removed.
  Result<void> copy_if_plain(const Path& name) {
    const auto source = from_.open_plain(name);
    if (source) {
      return copy_bytes(*source, to_ / name);
    }
    const bool is_left_out =
        source.error().code == Code::kNotFound || source.error().code == Code::kCorrupt;
    return is_left_out ? Result<void>() : source.error();
  }

  const PlainFiles& from_;
  Path to_;
  uid_t owner_;
  const CopyProgress& progress_;
  HomeKind kind_;
  std::set<Path> folders_;  // of contents, that are made
  CopyCounts counts_;
};

}  // namespace

Result<std::vector<Path>> entries_of(const Path& directory) {
  std::vector<Path> found;
  std::error_code failed;
  for (std::filesystem::directory_iterator it(directory, failed), end; !failed && it != end;
       it.increment(failed)) {
    found.push_back(it->path());
  }
  if (failed && failed.value() != ENOENT) {
    return errno_error("listing " + directory.string(), failed.value());
  }
  std::sort(found.begin(), found.end());
  return found;
}

Result<CopyCounts> copy_parts(const PlainFiles& from, const Path& to, uid_t owner,
                              const CopyProgress& progress) {
  return HomeParts(from, to, owner, progress).run();
}

}  // namespace trainyard::server
