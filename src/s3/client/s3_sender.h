// SPDX-License-Identifier: Apache-2.0
// One S3 request of S3Client, from its parts to an answer: builds the URL, signs, sends, and tries
// again what may be tried again. All that S3Client asks is idempotent, so a lost answer may always
// be asked for once more. Knows the names of S3's errors.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "http/client.h"
#include "s3/client/s3_client.h"

namespace trainyard::s3 {

struct S3Call {
  std::string method = "GET";
  std::string bucket = {};
  std::string key = {};
  std::vector<std::pair<std::string, std::string>> query = {};  // not encoded
  http::Headers headers = {};
  std::string_view body = {};  // borrowed
  std::function<Result<void>(std::span<const std::byte>)> download = {};
  // Called before each attempt: a download that was cut may ask for the rest.
  std::function<void(S3Call&)> prepare = {};
  std::stop_token stop = {};                   // besides the client's own
  std::chrono::milliseconds patience{60'000};  // no byte either way for this long
};

class S3Sender {
 public:
  // `options.endpoint` must have passed check_endpoint().
  S3Sender(S3ClientOptions options, http::Client& http, Clock& clock, Random& random);

  // An answer with status 2xx, or the error that S3's code and status mean.
  Result<http::Response> send(S3Call& call);

  const S3ClientOptions& options() const { return options_; }
  Clock& clock() const { return clock_; }

 private:
  struct Attempt {
    Result<http::Response> result;
    bool again = false;
    bool refresh = false;               // the credentials have expired
    std::optional<Duration> wait = {};  // as the server asked
  };
  Attempt attempt(S3Call& call, bool refresh);
  Attempt judge(const S3Call& call, http::Response response, bool refreshed);
  bool is_skewed(const http::Response& response) const;
  void learn_time(const http::Response& response);
  Result<void> pause(Duration longest, const std::stop_token& stop);

  S3ClientOptions options_;
  std::string scheme_;     // "http://"
  std::string authority_;  // host, and port where it is not the scheme's own
  std::string base_path_;  // of the endpoint, without a final slash
  http::Client& http_;
  Clock& clock_;
  std::atomic<std::int64_t> skew_ms_{0};  // the server's clock minus ours
  std::atomic<bool> warned_{false};
  Mutex mutex_;
  Random& random_ GUARDED_BY(mutex_);
};

Result<void> check_endpoint(std::string_view endpoint);

// The error that an answer outside 2xx stands for.
Error s3_error(const S3Call& call, const http::Response& response);

}  // namespace trainyard::s3
