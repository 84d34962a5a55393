// SPDX-License-Identifier: Apache-2.0
// Objects in buckets, as S3 means them, behind one interface: DirectoryStore keeps them on this
// machine's disk (the server's own store), S3Client reaches any S3 over HTTP (instances, other
// stores). Callers hand in streams, so memory never grows with object size.
//
// Errors: kNotFound with subject "bucket", "key" or "upload"; kAlreadyExists, kConflict (bucket not
// empty) with subject "bucket"; kConflict with subject "precondition"; kInvalidArgument with
// subject "range", "digest", "payload-hash", "length", "part", "part-order", "part-size", "name"
// (of a bucket), "key"; kDenied; kUnavailable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/result.h"

namespace trainyard::s3 {

struct Uri {  // "s3://bucket/key"; the key may be empty
  std::string bucket;
  std::string key;
};
Result<Uri> parse_uri(std::string_view text);  // s3:// only; anything else is kInvalidArgument
std::string to_string(const Uri& uri);

struct Checksum {
  HashKind kind = HashKind::kCrc32;
  std::string base64;  // composite ones end in "-<parts>"
  bool composite = false;
};

// A part of an object that a multipart upload has made.
struct ObjectPart {
  std::uint64_t size = 0;
  std::vector<Checksum> checksums = {};
};

struct ObjectInfo {
  std::string key;
  std::uint64_t size = 0;
  std::string etag;  // without quotes
  WallTime last_modified{};
  std::string content_type = {};
  // Cache-Control, Content-Disposition, Content-Encoding, Content-Language, Expires as given, and
  // user metadata under "x-amz-meta-<name>" in lower case. Server-side encryption is accepted and
  // echoed under its header name.
  std::map<std::string, std::string> headers = {};
  std::vector<Checksum> checksums = {};
  // In order, from 1, whatever their numbers in the upload were; empty for an object of one piece.
  // Of the ways to look at an object only head_with_parts() fills it: there may be 10,000.
  std::vector<ObjectPart> parts = {};
  std::map<std::string, std::string> tags = {};  // filled by DirectoryStore's get and head
};

// Fills `out` with the next bytes; 0 at the end.
using ByteSource = std::function<Result<std::size_t>(std::span<std::byte> out)>;

// Asked at the last moment before a write becomes visible; an error leaves everything as it was.
// Other writes may wait for it: quick, and without a call of the store.
using CommitCheck = std::function<Result<void>()>;

struct PutOptions {
  std::string content_type = {};
  std::map<std::string, std::string> headers = {};  // as in ObjectInfo
  // What the content must hash to (kInvalidArgument, subject "digest", otherwise): called with the
  // running hashes' results once the last byte is in, before the object becomes visible.
  std::vector<Checksum> expected = {};              // compared
  std::vector<HashKind> compute = {};               // computed and kept
  std::optional<std::string> expected_md5 = {};     // raw bytes (Content-MD5)
  std::optional<std::string> expected_sha256 = {};  // hex (x-amz-content-sha256)
  std::optional<std::uint64_t> length = {};  // exact; kInvalidArgument, subject "length" otherwise
  // Checksums that are known only after the last byte (aws-chunked trailers); called once, then.
  std::function<Result<std::vector<Checksum>>()> expected_at_end = {};
  bool only_if_absent = false;  // If-None-Match: *; kConflict, subject "precondition"
  // If-Match: the object there has this ETag; kConflict, subject "precondition", or kNotFound.
  std::optional<std::string> only_if_match = {};
  std::map<std::string, std::string> tags = {};
  CommitCheck before_visible = {};  // of put
  // create_upload: the checksum is to cover the whole object instead of the parts' checksums.
  bool full_object_checksum = false;
  std::string owner = {};  // of create_upload: who began it, for list_uploads
  // copy: the source has this ETag; kConflict, subject "source" (of S3Client "precondition"),
  // otherwise.
  std::optional<std::string> source_etag = {};
};

struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  // inclusive
};

// Where the bytes of an open object lie in a file of this machine.
struct LocalBytes {
  int fd = -1;  // borrowed from the reader; read it by offset only
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

// An open object: its bytes stay those of the moment it was opened, whatever replaces it.
class ObjectReader {
 public:
  virtual ~ObjectReader() = default;
  virtual const ObjectInfo& info() const = 0;  // of the whole object, whatever range is read
  virtual Result<std::size_t> read(std::span<std::byte> out) = 0;
  // What read() would give from the beginning, for those who can send a file; empty where the bytes
  // are not in one.
  virtual std::optional<LocalBytes> local() const { return std::nullopt; }
};

struct ListQuery {
  std::string prefix = {};
  std::string delimiter = {};
  std::string after = {};  // keys (and common prefixes) strictly greater than this
  std::size_t limit = 1000;
};

struct ListPage {
  std::vector<ObjectInfo> objects;  // key, size, etag, last_modified; checksums where it knows them
  std::vector<std::string> common_prefixes;
  bool truncated = false;
  std::string next_after = {};  // pass as `after` to go on
};

struct BucketInfo {
  std::string name;
  WallTime created{};
};

struct PartInfo {
  int number = 0;
  std::uint64_t size = 0;
  std::string etag;
  WallTime last_modified{};
  std::vector<Checksum> checksums = {};
};

// Which part of which upload.
struct PartId {
  std::string upload_id;
  int number = 0;  // 1 to 10,000
};

struct UploadInfo {
  std::string key;
  std::string upload_id;
  WallTime started{};
  std::string owner = {};  // these three as PutOptions had them; other stores leave them empty
  std::optional<HashKind> checksum = {};
  bool full_object_checksum = false;
};

// A page of unfinished uploads, in the order of key and id.
struct UploadsAfter {
  std::string prefix = {};
  std::string key = {};  // uploads of greater keys follow,
  std::string id = {};   // and of this very key those of greater ids, when it is given
  std::size_t limit = 1000;
};

// Under which an upload is completed; as the members of PutOptions.
struct CompleteOptions {
  CommitCheck before_visible = {};
  bool only_if_absent = false;
  std::optional<std::string> only_if_match = {};
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  virtual Result<std::vector<BucketInfo>> list_buckets() = 0;
  virtual Result<void> create_bucket(const std::string& bucket) = 0;  // kAlreadyExists
  virtual Result<void> delete_bucket(const std::string& bucket) = 0;
  virtual Result<void> head_bucket(const std::string& bucket) = 0;

  // Visible, whole and durable when it returns; not at all otherwise.
  virtual Result<ObjectInfo> put(const std::string& bucket, const std::string& key,
                                 const ByteSource& body, const PutOptions& options) = 0;
  // A range that ends after the object is cut; one that begins after it is kInvalidArgument.
  virtual Result<std::unique_ptr<ObjectReader>> get(const std::string& bucket,
                                                    const std::string& key,
                                                    std::optional<ByteRange> range) = 0;
  virtual Result<ObjectInfo> head(const std::string& bucket, const std::string& key) = 0;
  // With the parts, where the store knows them.
  virtual Result<ObjectInfo> head_with_parts(const std::string& bucket, const std::string& key) {
    return head(bucket, key);
  }
  virtual Result<void> remove(const std::string& bucket, const std::string& key) = 0;  // idempotent
  // All of them as remove() does; one durable step where the store can.
  virtual Result<void> remove_all(const std::string& bucket, const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      YARD_TRY(remove(bucket, key));
    }
    return {};
  }
  virtual Result<ListPage> list(const std::string& bucket, const ListQuery& query) = 0;
  // Keeps the source's headers unless `replace` is given.
  virtual Result<ObjectInfo> copy(const std::string& from_bucket, const std::string& from_key,
                                  const std::string& bucket, const std::string& key,
                                  const std::optional<PutOptions>& replace) = 0;

  virtual Result<std::string> create_upload(const std::string& bucket, const std::string& key,
                                            const PutOptions& options) = 0;
  virtual Result<PartInfo> put_part(const std::string& bucket, const std::string& key,
                                    const PartId& part, const ByteSource& body,
                                    const PutOptions& options) = 0;
  virtual Result<ObjectInfo> complete_upload(const std::string& bucket, const std::string& key,
                                             const std::string& upload_id,
                                             const std::vector<PartInfo>& parts) = 0;
  // The same under conditions. A store that cannot ask them at the last moment asks at once.
  virtual Result<ObjectInfo> complete_upload_if(const std::string& bucket, const std::string& key,
                                                const std::string& upload_id,
                                                const std::vector<PartInfo>& parts,
                                                const CompleteOptions& options);
  virtual Result<void> abort_upload(const std::string& bucket, const std::string& key,
                                    const std::string& upload_id) = 0;
  virtual Result<std::vector<PartInfo>> list_parts(const std::string& bucket,
                                                   const std::string& key,
                                                   const std::string& upload_id) = 0;
  virtual Result<std::vector<UploadInfo>> list_uploads(const std::string& bucket,
                                                       const std::string& prefix) = 0;

  // A store that cannot begin in the middle looks at all of them.
  virtual Result<std::vector<UploadInfo>> list_uploads_after(const std::string& bucket,
                                                             const UploadsAfter& after);

  // As remove(), when the object has that ETag: kConflict, subject "precondition", otherwise;
  // kNotFound when there is none.
  virtual Result<void> remove_if(const std::string& bucket, const std::string& key,
                                 const std::string& etag);
  // In place of those that it has; its time and ETag stay. kUnimplemented where a store keeps none.
  virtual Result<void> set_tags(const std::string& bucket, const std::string& key,
                                const std::map<std::string, std::string>& tags);
  // A text that a bucket keeps under a name ("cors", "tagging"); empty when it has none. Setting an
  // empty text removes it. kUnimplemented where a store keeps none.
  virtual Result<std::string> bucket_setting(const std::string& bucket, const std::string& name);
  virtual Result<void> set_bucket_setting(const std::string& bucket, const std::string& name,
                                          const std::string& text);
};

}  // namespace trainyard::s3
