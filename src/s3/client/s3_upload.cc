// SPDX-License-Identifier: Apache-2.0
// S3Client::put: one PUT for a short body, parts for a long one or one of unknown length.
#include <algorithm>
#include <memory>
#include <system_error>
#include <thread>

#include "base/encoding.h"
#include "base/log.h"
#include "base/thread.h"
#include "s3/checksum.h"
#include "s3/client/s3_client_state.h"
#include "s3/object_headers.h"

namespace trainyard::s3 {
namespace {

constexpr std::uint64_t kMostParts = 10'000;
// A body of unknown length gets parts of twice the size after each thousand, which reaches S3's
// largest object (5 TiB) within kMostParts.
constexpr int kPartsPerSize = 1'000;

std::size_t part_size(std::size_t least, std::optional<std::uint64_t> length, int number) {
  if (length) {
    return std::max(least, static_cast<std::size_t>(*length / kMostParts + 1));
  }
  return least << ((number - 1) / kPartsPerSize);
}

// One part on its way, in a thread of its own, so that the next one is read meanwhile; where the
// machine has no thread to give, it is sent before the next one is read. It owns the bytes until it
// is done.
class PartInFlight {
 public:
  using Send = std::function<Result<PartInfo>(std::string_view bytes)>;

  PartInFlight(std::string bytes, Send send)
      : bytes_(std::move(bytes)),
        send_(std::move(send)),
        result_(Error{Code::kInternal, "not sent"}) {
    try {
      thread_ =
          start_thread("s3-part", [this](const std::stop_token&) { result_ = send_(bytes_); });
    } catch (const std::system_error&) {
      result_ = send_(bytes_);
    }
  }

  Result<PartInfo> wait() {
    if (thread_.joinable()) {
      thread_.join();
    }
    return std::move(result_);
  }

 private:
  std::string bytes_;
  Send send_;
  Result<PartInfo> result_;
  std::jthread thread_;
};

class PartsUpload {
 public:
  PartsUpload(S3Client& client, S3Sender& sender, const Uri& to, const PutOptions& options)
      : client_(client), sender_(sender), to_(to), options_(options) {}

  // `bytes` is the first part, already seen by `digester`.
  Result<ObjectInfo> run(std::string bytes, const ByteSource& body, Digester& digester) {
    PutOptions creation{.content_type = options_.content_type, .headers = options_.headers};
    if (kind_) {
      creation.compute = {*kind_};
      creation.full_object_checksum = is_crc(*kind_);
    }
    YARD_TRY(id_, client_.create_upload(to_.bucket, to_.key, creation));
    auto made = send_all(std::move(bytes), body, digester);
    if (!made) {
      in_flight_.reset();
      if (const auto aborted = client_.abort_upload(to_.bucket, to_.key, id_); !aborted) {
        log_warning("s3: an upload could not be aborted: " + aborted.error().message);
      }
    }
    return made;
  }

 private:
  Result<ObjectInfo> send_all(std::string bytes, const ByteSource& body, Digester& digester) {
    while (!bytes.empty()) {
      YARD_TRY(settle());
      launch(std::move(bytes));
      bytes = {};
      YARD_TRY(
          fill(body, part_size(sender_.options().part_size, options_.length, number_ + 1), bytes));
      digester.update(std::as_bytes(std::span(bytes)));
    }
    YARD_TRY(settle());
    YARD_TRY(const auto digests, digester.finish());
    if (options_.only_if_absent) {
      const auto there = client_.head(to_.bucket, to_.key);
      if (there) {
        return Error{Code::kConflict, "'" + to_.key + "' is already there", "precondition"};
      }
      if (there.error().code != Code::kNotFound) {
        return there.error();
      }
    }
    return client_.complete_upload(to_.bucket, to_.key, id_, parts_);
  }

  void launch(std::string bytes) {
    ++number_;
    in_flight_ = std::make_unique<PartInFlight>(
        std::move(bytes), [this, number = number_](std::string_view text) {
          Part part{.id = {.upload_id = id_, .number = number}, .bytes = text, .checksums = {}};
          if (kind_) {
            part.checksums.push_back({.kind = *kind_, .base64 = to_base64(hash_of(*kind_, text))});
          }
          return send_part(sender_, to_, part);
        });
  }

  Result<void> settle() {
    if (in_flight_ != nullptr) {
      const auto part = std::exchange(in_flight_, nullptr);
      YARD_TRY(parts_.emplace_back(), part->wait());
    }
    return {};
  }

  S3Client& client_;
  S3Sender& sender_;
  const Uri& to_;
  const PutOptions& options_;
  std::optional<HashKind> kind_ = chosen_checksum(options_, sender_.options().checksums);
  std::string id_;
  int number_ = 0;
  std::vector<PartInfo> parts_;
  std::unique_ptr<PartInFlight> in_flight_;
};

}  // namespace

Result<void> fill(const ByteSource& body, std::size_t size, std::string& buffer) {
  constexpr std::size_t kStep = std::size_t{1} << 20;
  while (buffer.size() < size) {
    const std::size_t before = buffer.size();
    buffer.resize(before + std::min(kStep, size - before));
    auto got = body(std::as_writable_bytes(std::span(buffer)).subspan(before));
    buffer.resize(before + (got ? *got : 0));
    if (!got || *got == 0) {
      return got ? Result<void>() : Result<void>(std::move(got).error());
    }
  }
  return {};
}

std::optional<HashKind> chosen_checksum(const PutOptions& options, bool by_default) {
  if (!options.expected.empty()) {
    return options.expected.front().kind;
  }
  if (!options.compute.empty()) {
    return options.compute.front();
  }
  return by_default ? std::optional(HashKind::kCrc32c) : std::nullopt;
}

Result<PartInfo> send_part(S3Sender& sender, const Uri& to, const Part& part) {
  S3Call call{
      .method = "PUT",
      .bucket = to.bucket,
      .key = to.key,
      .query = {{"partNumber", std::to_string(part.id.number)}, {"uploadId", part.id.upload_id}},
      .body = part.bytes};
  write_checksums(part.checksums, call.headers);
  YARD_TRY(const http::Response response, sender.send(call));
  return PartInfo{.number = part.id.number,
                  .size = part.bytes.size(),
                  .etag = unquote_etag(response.headers.get("ETag")),
                  .last_modified = sender.clock().now(),
                  .checksums = part.checksums};
}

Result<ObjectInfo> upload_object(S3Client& client, S3Sender& sender, const Uri& to,
                                 const ByteSource& body, const PutOptions& options) {
  const S3ClientOptions& settings = sender.options();
  const auto kind = chosen_checksum(options, settings.checksums);
  PutOptions wanted = options;
  if (kind) {
    wanted.compute.push_back(*kind);
  }
  Digester digester(wanted);
  std::string bytes;
  const std::size_t size = part_size(settings.part_size, options.length, 1);
  YARD_TRY(fill(body, size, bytes));
  digester.update(std::as_bytes(std::span(bytes)));
  if (bytes.size() == size) {
    return PartsUpload(client, sender, to, options).run(std::move(bytes), body, digester);
  }
  YARD_TRY(auto digests, digester.finish());
  std::erase_if(digests.checksums, [&](const Checksum& other) { return other.kind != kind; });
  S3Call call{.method = "PUT", .bucket = to.bucket, .key = to.key, .body = bytes};
  write_object_headers(options.content_type, options.headers, call.headers);
  write_checksums(digests.checksums, call.headers);
  if (options.only_if_absent) {
    call.headers.set("If-None-Match", "*");
  }
  YARD_TRY(const http::Response response, sender.send(call));
  return ObjectInfo{.key = to.key,
                    .size = bytes.size(),
                    .etag = unquote_etag(response.headers.get("ETag")),
                    .last_modified = sender.clock().now(),
                    .content_type = options.content_type,
                    .headers = options.headers,
                    .checksums = std::move(digests.checksums)};
}

}  // namespace trainyard::s3
