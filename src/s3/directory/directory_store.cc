// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/directory_store.h"

#include <sys/stat.h>

#include "base/encoding.h"
#include "base/log.h"
#include "s3/checksum.h"
#include "s3/directory/content_batch.h"
#include "s3/directory/directory_state.h"
#include "s3/names.h"

namespace trainyard::s3 {
namespace {

// A replaced content is removed after the index has changed, so a reader that looked the object up
// just before finds nothing and looks again.
constexpr int kLookups = 20;
constexpr std::uint64_t kSyncedTogether = std::uint64_t{4} << 20;

class FileReader final : public ObjectReader {
 public:
  FileReader(std::shared_ptr<const OpenObject> object, std::uint64_t first, std::uint64_t end)
      : object_(std::move(object)), position_(first), end_(end) {}

  const ObjectInfo& info() const override { return object_->row.info; }

  Result<std::size_t> read(std::span<std::byte> out) override {
    const std::uint64_t left = end_ - position_;
    if (left == 0) {
      return std::size_t{0};
    }
    const auto some =
        out.first(static_cast<std::size_t>(std::min<std::uint64_t>(left, out.size())));
    YARD_TRY(const std::size_t got, read_at(object_->file.get(), some, position_));
    if (got == 0 && !some.empty()) {
      return Error{Code::kCorrupt, "the content of '" + info().key + "' is shorter than its index"};
    }
    position_ += got;
    return got;
  }

  std::optional<LocalBytes> local() const override {
    return LocalBytes{.fd = object_->file.get(), .offset = position_, .length = end_ - position_};
  }

 private:
  // With the cache that may hold it, and other readers.
  const std::shared_ptr<const OpenObject> object_;
  std::uint64_t position_;
  std::uint64_t end_;  // exclusive
};

Result<ByteRange> clip(const ObjectInfo& info, const std::optional<ByteRange>& range) {
  if (!range) {
    return ByteRange{.first = 0, .last = info.size};  // an empty object has no last byte
  }
  if (range->first >= info.size || range->last < range->first) {
    return Error{
        Code::kInvalidArgument,
        "the range begins after the " + std::to_string(info.size) + " bytes of '" + info.key + "'",
        "range"};
  }
  return ByteRange{.first = range->first, .last = std::min(range->last + 1, info.size)};
}

WriteCondition condition_of(const PutOptions& options) {
  return {.only_if_absent = options.only_if_absent,
          .only_if_match = options.only_if_match,
          .before_visible = options.before_visible};
}

// Whether a content is what its ETag says, on the disk. Of a small one only. An error says nothing
// about the content: a put that was acknowledged must not go because a file cannot be read now.
Result<bool> is_whole(const ContentFiles& files, const Unconfirmed& change) {
  const auto fd = files.open_content(change.content);
  if (!fd) {
    return fd.error().code == Code::kNotFound ? Result<bool>(false) : Result<bool>(fd.error());
  }
  std::vector<std::byte> bytes(change.size + 1);
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    YARD_TRY(const std::size_t got, read_at(fd->get(), std::span(bytes).subspan(filled), filled));
    if (got == 0) {
      break;
    }
    filled += got;
  }
  Hasher md5(HashKind::kMd5);
  md5.update(std::span<const std::byte>(bytes).first(std::min<std::size_t>(filled, change.size)));
  if (filled != change.size || to_hex(md5.finish()) != change.etag) {
    return false;
  }
  // When only the process has ended, what was read may be in memory and nowhere else.
  YARD_TRY(sync_content(fd->get()));
  return true;
}

// Puts whose content and index were being synced at the same time.
Result<void> settle(Index& index, const ContentFiles& files) {
  YARD_TRY(const auto changes, index.unconfirmed());
  for (const Unconfirmed& change : changes) {
    const auto is_good = is_whole(files, change);
    if (!is_good) {
      return is_good.error().in("looking whether the last put is whole (without the file " +
                                files.published_path(change.content).string() +
                                " the store would go on with what that put replaced)");
    }
    if (!*is_good) {
      log_warning("store: took back a put that the end of the machine interrupted");
    }
    YARD_TRY(index.confirm(change, *is_good));
  }
  return {};
}

// Crash points: a content that never reached the index, and one that left it.
Result<void> sweep(Index& index, ContentFiles& files) {
  YARD_TRY(const auto incoming, files.incoming());
  std::set<std::string> left;
  for (const std::string& name : incoming) {
    if (is_batch(name)) {
      YARD_TRY(const auto contents, contents_of_batch(files, name));
      left.insert(contents.begin(), contents.end());
    } else {
      left.insert(name);
    }
  }
  YARD_TRY(const auto garbage, index.garbage());
  YARD_TRY(auto needed, index.used(left));
  needed.insert(garbage.begin(), garbage.end());  // perhaps by who copies the store
  for (const std::string& content : left) {
    if (!needed.contains(content)) {
      YARD_TRY(files.remove(content));
    }
  }
  for (const std::string& name : incoming) {
    files.forget_incoming(name);
  }
  const Contents useless = files.kept_back().let_go(garbage, 0);
  for (const std::string& content : useless) {
    YARD_TRY(files.remove(content));
  }
  index.collected(useless);
  return {};
}

}  // namespace

std::size_t DirectoryStore::State::collect(const Contents& contents, std::size_t most_others) {
  Contents gone;
  for (const std::string& content : files->kept_back().let_go(contents, most_others)) {
    if (const auto removed = files->remove(content); removed) {
      gone.push_back(content);
    } else {
      log_warning("store: a useless content stays until the next start: " +
                  removed.error().message);
    }
  }
  index->collected(gone);
  return gone.size();
}

Result<ObjectRow> DirectoryStore::State::object(const std::string& bucket, const std::string& key,
                                                Parts parts) {
  while (true) {
    YARD_TRY(ObjectRow row, index->object(bucket, key, parts));
    if (!unsettled.wait_for(row.content)) {
      return row;
    }
  }
}

Result<std::shared_ptr<const OpenObject>> DirectoryStore::State::open(const std::string& bucket,
                                                                      const std::string& key) {
  const std::optional<std::uint64_t> version = index->version();
  if (version) {
    if (auto known = opened.find(bucket, key, *version)) {
      return known;
    }
  }
  for (int attempt = 0; attempt < kLookups; ++attempt) {
    YARD_TRY(ObjectRow row, object(bucket, key, Parts::kSkip));
    auto file = files->open_content(row.content);
    if (!file && file.error().code == Code::kNotFound) {
      continue;
    }
    YARD_TRY(Fd fd, std::move(file));
    auto found = std::make_shared<const OpenObject>(
        OpenObject{.version = version.value_or(0), .row = std::move(row), .file = std::move(fd)});
    if (version && ObjectCache::takes(found->row.info)) {
      opened.keep(bucket, found);
    }
    return found;
  }
  return Error{Code::kCorrupt, "the content file of '" + key + "' is missing"};
}

Result<Contents> told(Draft& draft, Result<Contents> answer) {
  if (!answer && may_stand_after_a_crash(answer.error())) {
    draft.leave();
  }
  return answer;
}

// A small content is synced together with the index; a large one would have to be read again after
// a crash, and hardly notices a second wait.
Result<Contents> DirectoryStore::State::put(const std::string& bucket, const ObjectRow& row,
                                            const WriteCondition& condition, Draft& draft) {
  if (row.info.size > kSyncedTogether) {
    YARD_TRY(draft.publish());
    return told(draft, index->put_object(bucket, row, condition));
  }
  const Unsettled::Mark mark(unsettled, row.content);
  return index->put_object_while(bucket, row, condition, [&draft] { return draft.publish(); });
}

DirectoryStore::DirectoryStore(std::unique_ptr<State> state) : state_(std::move(state)) {}

DirectoryStore::~DirectoryStore() {
  // Otherwise the next start reads the last contents again.
  if (auto done = state_->index->confirm_all(); !done) {
    log_warning("store: " + done.error().message);
  }
}

Result<std::unique_ptr<DirectoryStore>> DirectoryStore::open(const Path& root, Clock& clock,
                                                             Random& random) {
  YARD_TRY(make_directories(root, 0700));
  YARD_TRY(FileLock lock, FileLock::acquire(root / "lock"));
  YARD_TRY(auto files, ContentFiles::open(root, random));
  YARD_TRY(auto index, Index::open(root / "index.db"));
  YARD_TRY(settle(*index, *files));
  YARD_TRY(sweep(*index, *files));
  YARD_TRY(sync_directory(root));
  return std::unique_ptr<DirectoryStore>(new DirectoryStore(
      std::make_unique<State>(std::move(lock), std::move(files), std::move(index), clock, random)));
}

Result<std::vector<BucketInfo>> DirectoryStore::list_buckets() {
  return state_->index->buckets();
}

Result<void> DirectoryStore::create_bucket(const std::string& bucket) {
  YARD_TRY(check_bucket_name(bucket));
  return state_->index->add_bucket({.name = bucket, .created = state_->clock.now()});
}

Result<void> DirectoryStore::delete_bucket(const std::string& bucket) {
  YARD_TRY(const Contents dropped, state_->index->remove_bucket(bucket));
  state_->collect(dropped);
  return {};
}

Result<void> DirectoryStore::head_bucket(const std::string& bucket) {
  return state_->index->require_bucket(bucket);
}

Result<ObjectInfo> DirectoryStore::put(const std::string& bucket, const std::string& key,
                                       const ByteSource& body, const PutOptions& options) {
  YARD_TRY(check_key(key));
  YARD_TRY(state_->index->require_bucket(bucket));
  Digester digester(options, &state_->lanes);
  YARD_TRY(Draft draft, state_->files->write(body, digester, options.length));
  YARD_TRY(auto digests, digester.finish());
  ObjectRow row{.info = {.key = key,
                         .size = digests.size,
                         .etag = std::move(digests.md5_hex),
                         .last_modified = state_->clock.now(),
                         .content_type = options.content_type,
                         .headers = options.headers,
                         .checksums = std::move(digests.checksums),
                         .tags = options.tags},
                .content = draft.id()};
  YARD_TRY(const Contents dropped, state_->put(bucket, row, condition_of(options), draft));
  draft.keep();
  state_->collect(dropped);
  return std::move(row.info);
}

Result<std::unique_ptr<ObjectReader>> DirectoryStore::get(const std::string& bucket,
                                                          const std::string& key,
                                                          std::optional<ByteRange> range) {
  YARD_TRY(auto object, state_->open(bucket, key));
  YARD_TRY(const ByteRange part, clip(object->row.info, range));
  return std::unique_ptr<ObjectReader>(
      std::make_unique<FileReader>(std::move(object), part.first, part.last));
}

Result<ObjectInfo> DirectoryStore::head(const std::string& bucket, const std::string& key) {
  YARD_TRY(ObjectRow row, state_->object(bucket, key, Parts::kSkip));
  return std::move(row.info);
}

Result<ObjectInfo> DirectoryStore::head_with_parts(const std::string& bucket,
                                                   const std::string& key) {
  YARD_TRY(ObjectRow row, state_->object(bucket, key));
  return std::move(row.info);
}

Result<void> DirectoryStore::remove(const std::string& bucket, const std::string& key) {
  return remove_all(bucket, {key});
}

Result<void> DirectoryStore::remove_all(const std::string& bucket,
                                        const std::vector<std::string>& keys) {
  YARD_TRY(const Contents dropped, state_->index->remove_objects(bucket, keys));
  state_->collect(dropped);
  return {};
}

Result<void> DirectoryStore::remove_if(const std::string& bucket, const std::string& key,
                                       const std::string& etag) {
  YARD_TRY(const Contents dropped, state_->index->remove_object_if(bucket, key, etag));
  state_->collect(dropped);
  return {};
}

Result<void> DirectoryStore::set_tags(const std::string& bucket, const std::string& key,
                                      const std::map<std::string, std::string>& tags) {
  YARD_TRY(const ObjectRow settled, state_->object(bucket, key));
  return state_->index->set_tags(bucket, key, tags);
}

Result<std::string> DirectoryStore::bucket_setting(const std::string& bucket,
                                                   const std::string& name) {
  return state_->index->setting(bucket, name);
}

Result<void> DirectoryStore::set_bucket_setting(const std::string& bucket, const std::string& name,
                                                const std::string& text) {
  return state_->index->set_setting(bucket, name, text);
}

Result<ListPage> DirectoryStore::list(const std::string& bucket, const ListQuery& query) {
  return state_->index->list(bucket, query);
}

std::size_t DirectoryStore::collect_kept(const std::stop_token& stop) {
  std::size_t count = 0;
  while (!stop.stop_requested()) {
    const std::size_t gone = state_->collect({}, State::kCollectedWithEach);
    if (gone == 0) {
      break;
    }
    count += gone;
  }
  return count;
}

bool DirectoryStore::holds(const Path& path) const {
  struct stat own {};
  std::error_code error;
  Path at = std::filesystem::canonical(path, error);
  if (error || ::stat(state_->files->root().c_str(), &own) != 0) {
    return false;
  }
  while (true) {
    struct stat status {};
    if (::stat(at.c_str(), &status) == 0 && status.st_dev == own.st_dev &&
        status.st_ino == own.st_ino) {
      return true;
    }
    if (at == at.parent_path()) {
      return false;
    }
    at = at.parent_path();
  }
}

Result<ObjectInfo> DirectoryStore::copy(const std::string& from_bucket, const std::string& from_key,
                                        const std::string& bucket, const std::string& key,
                                        const std::optional<PutOptions>& replace) {
  YARD_TRY(check_key(key));
  YARD_TRY(state_->index->require_bucket(bucket));
  for (int attempt = 0; attempt < kLookups; ++attempt) {
    YARD_TRY(ObjectRow row, state_->object(from_bucket, from_key));
    if (replace && replace->source_etag && row.info.etag != *replace->source_etag) {
      return Error{Code::kConflict, "the source '" + from_key + "' was replaced", "source"};
    }
    auto draft = state_->files->duplicate(row.content);
    if (!draft && draft.error().code == Code::kNotFound) {
      continue;
    }
    YARD_TRY(Draft copied, std::move(draft));
    row.info.key = key;
    row.info.last_modified = state_->clock.now();
    row.content = copied.id();
    row.upload.clear();
    if (replace) {
      row.info.content_type = replace->content_type;
      row.info.headers = replace->headers;
      row.info.tags = replace->tags;
    }
    YARD_TRY(const Contents dropped,
             told(copied, state_->index->put_object(
                              bucket, row, replace ? condition_of(*replace) : WriteCondition{})));
    copied.keep();
    state_->collect(dropped);
    return std::move(row.info);
  }
  return Error{Code::kCorrupt, "the content file of '" + from_key + "' is missing"};
}

}  // namespace trainyard::s3
