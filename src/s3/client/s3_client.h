// SPDX-License-Identifier: Apache-2.0
// Any S3 over HTTP as an ObjectStore: signed (SigV4), with retries, resumed downloads and multipart
// uploads, so that a caller sees either the whole object or an error. Instances move channels and
// artefacts with it; it works against our own server, AWS, MinIO or Ceph. Memory: at most two parts
// for an upload and two chunks for each open reader.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "http/client.h"
#include "http/sigv4.h"
#include "s3/object_store.h"

namespace trainyard::s3 {

// Gives the keys to sign with; asked before every attempt, from many threads, so it caches. With
// `refresh` the server has called the last ones expired.
using CredentialsProvider = std::function<Result<http::Credentials>(bool refresh)>;

struct S3ClientOptions {
  std::string endpoint;  // "http://127.0.0.1:5500", "https://s3.us-east-1.amazonaws.com"
  std::string region = "us-east-1";
  CredentialsProvider credentials;
  bool path_style = true;  // false: the bucket is the first label of the host name

  // 5xx, 429, broken connections, skewed clocks and expired tokens are tried again, after a random
  // time of up to first_delay, doubled each time until max_delay.
  int max_attempts = 10;
  Duration first_delay{100};
  Duration max_delay{10'000};
  std::stop_token stop = {};  // ends every call with kCancelled

  std::size_t part_size = std::size_t{16} << 20;  // a body up to this long is one PUT
  std::size_t chunk_size = std::size_t{8} << 20;  // one ranged GET
  bool checksums = true;  // send CRC32C with uploads: a later GET verifies the whole object
};

class S3Client final : public ObjectStore {
 public:
  // kInvalidArgument for an endpoint that is not http(s)://host[:port]. The rest is borrowed.
  static Result<std::unique_ptr<S3Client>> make(S3ClientOptions options, http::Client& http,
                                                Clock& clock, Random& random);
  ~S3Client() override;

  Result<std::vector<BucketInfo>> list_buckets() override;
  Result<void> create_bucket(const std::string& bucket) override;
  Result<void> delete_bucket(const std::string& bucket) override;
  Result<void> head_bucket(const std::string& bucket) override;

  // A body of unknown or great length becomes a multipart upload, one part read while the one
  // before is sent; an upload that fails is aborted.
  Result<ObjectInfo> put(const std::string& bucket, const std::string& key, const ByteSource& body,
                         const PutOptions& options) override;
  // The reader fetches chunk by chunk under If-Match: an object that is replaced while it is read
  // gives kConflict (subject "precondition"), never a mix. Readers may not outlive the client.
  Result<std::unique_ptr<ObjectReader>> get(const std::string& bucket, const std::string& key,
                                            std::optional<ByteRange> range) override;
  Result<ObjectInfo> head(const std::string& bucket, const std::string& key) override;
  Result<void> remove(const std::string& bucket, const std::string& key) override;
  Result<ListPage> list(const std::string& bucket, const ListQuery& query) override;
  Result<ObjectInfo> copy(const std::string& from_bucket, const std::string& from_key,
                          const std::string& bucket, const std::string& key,
                          const std::optional<PutOptions>& replace) override;

  Result<std::string> create_upload(const std::string& bucket, const std::string& key,
                                    const PutOptions& options) override;
  // Holds the part in memory, so that it can be sent again.
  Result<PartInfo> put_part(const std::string& bucket, const std::string& key, const PartId& part,
                            const ByteSource& body, const PutOptions& options) override;
  Result<ObjectInfo> complete_upload(const std::string& bucket, const std::string& key,
                                     const std::string& upload_id,
                                     const std::vector<PartInfo>& parts) override;
  Result<void> abort_upload(const std::string& bucket, const std::string& key,
                            const std::string& upload_id) override;
  Result<std::vector<PartInfo>> list_parts(const std::string& bucket, const std::string& key,
                                           const std::string& upload_id) override;
  Result<std::vector<UploadInfo>> list_uploads(const std::string& bucket,
                                               const std::string& prefix) override;

 private:
  struct State;
  explicit S3Client(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace trainyard::s3
