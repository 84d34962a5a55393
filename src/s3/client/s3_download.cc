// SPDX-License-Identifier: Apache-2.0
// S3Client::get: ranged GETs of one chunk each, the next one fetched while the caller reads. The
// first answer fixes the ETag; every later request carries it as If-Match.
#include <algorithm>
#include <memory>
#include <system_error>
#include <thread>

#include "base/encoding.h"
#include "base/thread.h"
#include "s3/checksum.h"
#include "s3/client/s3_answers.h"
#include "s3/client/s3_client_state.h"
#include "s3/object_headers.h"

namespace trainyard::s3 {
namespace {

constexpr int kFetches = 3;  // of a chunk that arrives short or damaged

struct Source {
  S3Sender& sender;
  std::string bucket;
  std::string key;
};

struct Chunk {
  std::string bytes;
  http::Response head;
};

std::string range_header(std::uint64_t first, std::uint64_t last) {
  return "bytes=" + std::to_string(first) + "-" + std::to_string(last);
}

// One attempt chain. Without an ETag a cut transfer begins again, since nobody knows whether the
// bytes so far are of the object as it is then; with one it goes on where it was cut.
Result<Chunk> fetch_once(const Source& from, ByteRange range, const std::string& etag,
                         const std::stop_token& stop) {
  const std::uint64_t wanted = range.last - range.first + 1;
  std::uint64_t asked = range.first;
  Chunk chunk;
  S3Call call{.bucket = from.bucket, .key = from.key, .stop = stop};
  call.headers.set("x-amz-checksum-mode", "ENABLED");
  if (!etag.empty()) {
    call.headers.set("If-Match", quote_etag(etag));
  }
  call.prepare = [&](S3Call& self) {
    if (etag.empty() || chunk.bytes.size() == wanted) {
      chunk.bytes.clear();
    }
    asked = range.first + chunk.bytes.size();
    self.headers.set("Range", range_header(asked, range.last));
  };
  call.download = [&](std::span<const std::byte> bytes) -> Result<void> {
    if (chunk.bytes.size() + bytes.size() > wanted) {
      return Error{Code::kCorrupt, "the store sent more than the range asked for"};
    }
    chunk.bytes.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  };
  auto response = from.sender.send(call);
  if (!response && response.error().subject == "precondition") {
    return Error{Code::kConflict, "'" + from.key + "' was replaced while it was read",
                 "precondition"};
  }
  YARD_TRY(chunk.head, std::move(response));
  const std::string_view given = chunk.head.headers.get("Content-Range");
  if (asked != 0 && !given.starts_with("bytes " + std::to_string(asked) + "-")) {
    return Error{Code::kCorrupt,
                 "the store did not send the range asked for of '" + from.key + "'"};
  }
  return chunk;
}

std::uint64_t total_of(const Source& from, const Chunk& chunk) {
  return chunk.head.status == 206 ? read_object_info(from.key, chunk.head).size
                                  : chunk.bytes.size();
}

const Checksum* whole_checksum(const std::vector<Checksum>& checksums) {
  const auto it = std::ranges::find(checksums, false, &Checksum::composite);
  return it == checksums.end() ? nullptr : &*it;
}

// A chunk that is as long as the object says and, when it is all of it, has the object's checksum.
Result<Chunk> fetch(const Source& from, ByteRange range, const std::string& etag,
                    const std::stop_token& stop) {
  std::string complaint;
  for (int i = 0; i < kFetches; ++i) {
    YARD_TRY(Chunk chunk, fetch_once(from, range, etag, stop));
    const std::uint64_t total = total_of(from, chunk);
    const std::uint64_t end = std::min(range.last + 1, total);
    const std::uint64_t wanted = end > range.first ? end - range.first : 0;
    const auto checksums = read_checksums(chunk.head.headers);
    const Checksum* checksum = wanted == total ? whole_checksum(checksums) : nullptr;
    if (chunk.bytes.size() != wanted) {
      complaint =
          "has " + std::to_string(chunk.bytes.size()) + " of " + std::to_string(wanted) + " bytes";
    } else if (checksum != nullptr &&
               to_base64(hash_of(checksum->kind, chunk.bytes)) != checksum->base64) {
      complaint = "does not have its " + std::string(checksum_name(checksum->kind));
    } else {
      return chunk;
    }
  }
  return Error{Code::kCorrupt, "'" + from.key + "' as the store sends it " + complaint, "key"};
}

// A chunk on its way while the one before is read. Without a thread it is fetched when it is
// needed.
struct Prefetch {
  ByteRange range;
  Result<Chunk> result{Error{Code::kInternal, "not fetched"}};
  std::jthread thread;
};

class ChunkReader final : public ObjectReader {
 public:
  ChunkReader(Source from, ObjectInfo info, std::string bytes, std::uint64_t next,
              std::uint64_t end)
      : from_(std::move(from)),
        info_(std::move(info)),
        current_(std::move(bytes)),
        next_(next),
        end_(end) {
    start_prefetch();
  }

  // From now on the bytes are those of the whole object and must have this checksum.
  void expect(const Checksum& checksum) {
    expected_ = checksum;
    hasher_.emplace(checksum.kind);
  }

  const ObjectInfo& info() const override { return info_; }

  Result<std::size_t> read(std::span<std::byte> out) override {
    if (offset_ == current_.size()) {
      YARD_TRY(advance());
    }
    const std::size_t some =
        current_.copy(reinterpret_cast<char*>(out.data()), out.size(), offset_);
    offset_ += some;
    if (hasher_) {
      hasher_->update(out.first(some));
    }
    return some;
  }

 private:
  // The next chunk becomes the current one; at the end that is an empty one.
  Result<void> advance() {
    current_.clear();
    offset_ = 0;
    if (prefetch_ == nullptr) {
      return finish();
    }
    if (prefetch_->thread.joinable()) {
      prefetch_->thread.join();
    } else {
      prefetch_->result = fetch(from_, prefetch_->range, info_.etag, {});
    }
    Result<Chunk> result = std::move(prefetch_->result);
    prefetch_.reset();
    if (!result) {
      start_prefetch();  // whoever reads again tries again
      return std::move(result).error();
    }
    current_ = std::move(result->bytes);
    next_ += current_.size();
    start_prefetch();
    return {};
  }

  Result<void> finish() {
    if (hasher_ && to_base64(hasher_->finish()) != expected_.base64) {
      hasher_.reset();
      return Error{
          Code::kCorrupt,
          "'" + info_.key + "' does not have its " + std::string(checksum_name(expected_.kind)),
          "key"};
    }
    hasher_.reset();
    return {};
  }

  void start_prefetch() {
    if (next_ >= end_) {
      return;
    }
    const std::uint64_t size = from_.sender.options().chunk_size;
    prefetch_ = std::make_unique<Prefetch>();
    prefetch_->range = {.first = next_, .last = std::min(next_ + size, end_) - 1};
    try {
      prefetch_->thread =
          start_thread("s3-chunk", [this, into = prefetch_.get()](const std::stop_token& stop) {
            into->result = fetch(from_, into->range, info_.etag, stop);
          });
    } catch (const std::system_error&) {
      prefetch_->thread = {};  // the machine is out of threads
    }
  }

  Source from_;
  ObjectInfo info_;
  std::string current_;
  std::size_t offset_ = 0;
  std::uint64_t next_;  // first byte behind current_
  std::uint64_t end_;   // exclusive
  Checksum expected_;
  std::optional<Hasher> hasher_;
  // Last: its thread uses the members above.
  std::unique_ptr<Prefetch> prefetch_;
};

}  // namespace

Result<ObjectInfo> head_object(S3Sender& sender, const std::string& bucket,
                               const std::string& key) {
  S3Call call{.method = "HEAD", .bucket = bucket, .key = key};
  call.headers.set("x-amz-checksum-mode", "ENABLED");
  YARD_TRY(const http::Response response, sender.send(call));
  return read_object_info(key, response);
}

Result<std::unique_ptr<ObjectReader>> open_download(S3Sender& sender, const std::string& bucket,
                                                    const std::string& key,
                                                    std::optional<ByteRange> range) {
  const Source from{.sender = sender, .bucket = bucket, .key = key};
  const std::uint64_t first = range ? range->first : 0;
  std::uint64_t last = first + sender.options().chunk_size - 1;
  if (range) {
    last = std::min(last, range->last);
  }
  auto chunk = fetch(from, {.first = first, .last = last}, "", {});
  if (!chunk && !range && chunk.error().subject == "range") {
    // An empty object has no first byte.
    YARD_TRY(ObjectInfo info, head_object(sender, bucket, key));
    if (info.size != 0) {
      return Error{Code::kConflict, "'" + key + "' was replaced while it was read", "precondition"};
    }
    return std::unique_ptr<ObjectReader>(
        std::make_unique<ChunkReader>(from, std::move(info), "", 0, 0));
  }
  if (!chunk) {
    return std::move(chunk).error();
  }
  ObjectInfo info = read_object_info(key, chunk->head);
  info.size = total_of(from, *chunk);
  const std::uint64_t end = range ? std::min(range->last + 1, info.size) : info.size;
  const std::uint64_t next = first + chunk->bytes.size();
  std::optional<Checksum> expected;
  if (!range && next < end) {
    // Ranged answers carry no checksum of the whole.
    YARD_TRY(ObjectInfo whole, head_object(sender, bucket, key));
    const Checksum* checksum = whole_checksum(whole.checksums);
    if (whole.etag == info.etag && checksum != nullptr) {
      expected = *checksum;
    }
    info.checksums = std::move(whole.checksums);
  }
  auto reader =
      std::make_unique<ChunkReader>(from, std::move(info), std::move(chunk->bytes), next, end);
  if (expected) {
    reader->expect(*expected);
  }
  return std::unique_ptr<ObjectReader>(std::move(reader));
}

}  // namespace trainyard::s3
