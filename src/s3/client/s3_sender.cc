// SPDX-License-Identifier: Apache-2.0
#include "s3/client/s3_sender.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "base/check.h"
#include "base/encoding.h"
#include "base/log.h"
#include "base/text.h"
#include "s3/xml.h"

namespace trainyard::s3 {
namespace {

struct KnownError {
  std::string_view name;  // S3's
  Code code;
  std::string_view subject;
  bool again = false;  // may be over at the next attempt
};

constexpr KnownError kKnown[] = {
    {"NoSuchBucket", Code::kNotFound, "bucket"},
    {"NoSuchKey", Code::kNotFound, "key"},
    {"NoSuchUpload", Code::kNotFound, "upload"},
    {"BucketAlreadyOwnedByYou", Code::kAlreadyExists, "bucket"},
    {"BucketAlreadyExists", Code::kAlreadyExists, "bucket"},
    {"BucketNotEmpty", Code::kConflict, "bucket"},
    {"PreconditionFailed", Code::kConflict, "precondition"},
    {"InvalidRange", Code::kInvalidArgument, "range"},
    {"EntityTooSmall", Code::kInvalidArgument, "part-size"},
    {"InvalidPart", Code::kInvalidArgument, "part"},
    {"InvalidPartOrder", Code::kInvalidArgument, "part-order"},
    {"InvalidBucketName", Code::kInvalidArgument, "name"},
    {"KeyTooLongError", Code::kInvalidArgument, "key-length"},
    // We have checked the body before: it was damaged on its way.
    {"BadDigest", Code::kInvalidArgument, "digest", true},
    {"XAmzContentSHA256Mismatch", Code::kInvalidArgument, "payload-hash", true},
    {"IncompleteBody", Code::kInvalidArgument, "length", true},
    {"RequestTimeout", Code::kUnavailable, "", true},
    {"RequestTimeTooSkewed", Code::kDenied, "time", true},
    {"ExpiredToken", Code::kDenied, "token", true},
    {"TokenRefreshRequired", Code::kDenied, "token", true},
    {"OperationAborted", Code::kConflict, "", true},
    {"NotImplemented", Code::kUnimplemented, ""},
    {"InsufficientStorage", Code::kExhausted, ""},
};

const KnownError* known(std::string_view name) {
  const auto it = std::ranges::find(kKnown, name, &KnownError::name);
  return it == std::end(kKnown) ? nullptr : it;
}

// HEAD answers have no body: the status has to do.
KnownError by_status(const S3Call& call, int status) {
  switch (status) {
    case 401:
    case 403:
      return {"", Code::kDenied, ""};
    case 404:
      return {"", Code::kNotFound, call.key.empty() ? "bucket" : "key"};
    case 409:
      return {"", Code::kConflict, ""};
    case 412:
      return {"", Code::kConflict, "precondition"};
    case 416:
      return {"", Code::kInvalidArgument, "range"};
    case 429:
      return {"", Code::kUnavailable, "", true};
    case 501:
      return {"", Code::kUnimplemented, ""};
    default:
      return status >= 500 ? KnownError{"", Code::kUnavailable, "", true}
                           : KnownError{"", Code::kInvalidArgument, ""};
  }
}

std::string_view error_name(const XmlNode& body) {
  return body.name == "Error" ? body.get("Code") : std::string_view();
}

std::string describe(const S3Call& call) {
  return call.method + " " +
         (call.bucket.empty() ? "the list of buckets"
                              : to_string(Uri{.bucket = call.bucket, .key = call.key}));
}

std::string encode_query(const std::vector<std::pair<std::string, std::string>>& query) {
  std::string text;
  for (const auto& [name, value] : query) {
    text += (text.empty() ? "" : "&") + uri_encode(name) + "=" + uri_encode(value);
  }
  return text;
}

struct Endpoint {
  std::string scheme;
  std::string authority;
  std::string path;
};

std::optional<Endpoint> parse_endpoint(std::string_view text) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!text.starts_with(scheme)) {
      continue;
    }
    const std::string_view rest = text.substr(scheme.size());
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    std::string_view authority = rest.substr(0, slash);
    const std::string_view port = scheme == "http://" ? ":80" : ":443";
    if (authority.ends_with(port)) {
      authority.remove_suffix(port.size());
    }
    std::string path(rest.substr(slash));
    while (path.ends_with('/')) {
      path.pop_back();
    }
    if (authority.empty() || authority.find('@') != std::string_view::npos ||
        path.find_first_of("?#") != std::string::npos) {
      return std::nullopt;
    }
    return Endpoint{std::string(scheme), std::string(authority), std::move(path)};
  }
  return std::nullopt;
}

std::function<Result<std::size_t>(std::span<std::byte>)> view_source(std::string_view body) {
  return [body](std::span<std::byte> out) mutable -> Result<std::size_t> {
    const std::size_t some = std::min(out.size(), body.size());
    std::memcpy(out.data(), body.data(), some);
    body.remove_prefix(some);
    return some;
  };
}

// The name becomes a part of the path or of the host: nothing in it may mean something there. Other
// stores allow more than check_bucket_name() does.
bool is_plain_name(std::string_view bucket) {
  return bucket != "." && bucket != ".." && std::ranges::all_of(bucket, [](unsigned char c) {
           return c < 0x80 && (std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_');
         });
}

bool is_transient(const Error& error) {
  return error.code == Code::kUnavailable || error.code == Code::kDeadline;
}

}  // namespace

Result<void> check_endpoint(std::string_view endpoint) {
  if (!parse_endpoint(endpoint)) {
    return Error{Code::kInvalidArgument,
                 "'" + std::string(endpoint) + "' is not an endpoint: http(s)://host[:port]",
                 "endpoint"};
  }
  return {};
}

Error s3_error(const S3Call& call, const http::Response& response) {
  const auto body = parse_xml(response.body);
  const std::string_view name = body ? error_name(*body) : std::string_view();
  const KnownError* entry = known(name);
  const KnownError meaning = entry != nullptr ? *entry : by_status(call, response.status);
  std::string message = describe(call) + ": ";
  if (name.empty()) {
    message += "status " + std::to_string(response.status);
  } else {
    message.append(name).append(": ").append(body->get("Message"));
  }
  return Error{meaning.code, std::move(message), std::string(meaning.subject)};
}

S3Sender::S3Sender(S3ClientOptions options, http::Client& http, Clock& clock, Random& random)
    : options_(std::move(options)), http_(http), clock_(clock), random_(random) {
  const auto endpoint = parse_endpoint(options_.endpoint);
  YARD_CHECK(endpoint.has_value(), "the endpoint was checked before");
  scheme_ = endpoint->scheme;
  authority_ = endpoint->authority;
  base_path_ = endpoint->path;
}

Result<http::Response> S3Sender::send(S3Call& call) {
  if (!is_plain_name(call.bucket)) {
    return Error{Code::kInvalidArgument, "'" + call.bucket + "' cannot name a bucket", "name"};
  }
  Duration longest = options_.first_delay;
  bool refresh = false;
  for (int number = 1;; ++number) {
    Attempt done = attempt(call, refresh);
    if (done.result || !done.again || number >= options_.max_attempts) {
      return std::move(done.result);
    }
    log_debug("s3: attempt " + std::to_string(number) + ": " + done.result.error().message);
    refresh = done.refresh;
    YARD_TRY(pause(done.wait.value_or(longest), call.stop));
    longest = std::min(longest * 2, options_.max_delay);
  }
}

S3Sender::Attempt S3Sender::attempt(S3Call& call, bool refresh) {
  if (call.prepare) {
    call.prepare(call);
  }
  auto credentials = options_.credentials(refresh);
  if (!credentials) {
    const bool again = is_transient(credentials.error());
    return {.result = std::move(credentials).error(), .again = again};
  }
  http::Request head{.method = call.method,
                     .path = base_path_ + "/",
                     .query = encode_query(call.query),
                     .headers = call.headers,
                     .peer = {},
                     .listener = {}};
  std::string host = authority_;
  if (!call.bucket.empty()) {
    if (options_.path_style) {
      head.path += call.bucket + (call.key.empty() ? "" : "/");
    } else {
      host = call.bucket + "." + host;
    }
  }
  head.path += uri_encode(call.key, true);
  head.headers.set("Host", host);
  const WallTime now = clock_.now() + Duration(skew_ms_.load());
  http::sign(head, sha256_hex(call.body), *credentials,
             {.region = options_.region, .service = "s3"}, now);

  std::stop_source stop;
  const std::stop_callback by_client(options_.stop, [&stop] { stop.request_stop(); });
  const std::stop_callback by_caller(call.stop, [&stop] { stop.request_stop(); });
  http::ClientRequest request{
      .method = head.method,
      .url = scheme_ + host + head.path + (head.query.empty() ? "" : "?" + head.query),
      .headers = std::move(head.headers),
      .download = call.download,
      .stall_timeout = call.patience,
      .stop = stop.get_token()};
  if (!call.body.empty()) {
    request.upload = view_source(call.body);
    request.upload_length = call.body.size();
  }
  auto response = http_.send(request);
  if (!response) {
    const bool again = is_transient(response.error());
    return {.result = response.error().in(describe(call)), .again = again};
  }
  return judge(call, std::move(*response), refresh);
}

S3Sender::Attempt S3Sender::judge(const S3Call& call, http::Response response, bool refreshed) {
  // Long operations send their status first, so that an error may follow a 200.
  const bool is_error_body = response.body.find("<Error>") < 256;
  if (response.status / 100 == 2 && !is_error_body) {
    return {.result = std::move(response)};
  }
  const auto body = parse_xml(response.body);
  const std::string_view name = body ? error_name(*body) : std::string_view();
  const KnownError* entry = known(name);
  Attempt done{.result = s3_error(call, response)};
  done.again = entry != nullptr ? entry->again : by_status(call, response.status).again;
  if (entry == nullptr && response.status / 100 == 2) {
    done.result = Error{Code::kUnavailable, done.result.error().message};
    done.again = true;
  }
  // The answer to a HEAD names no error: a strange time in it, or a 400, says which it is.
  const bool unnamed = call.method == "HEAD" && response.body.empty();
  if ((entry != nullptr && entry->subject == "time") ||
      (unnamed && response.status == 403 && is_skewed(response))) {
    learn_time(response);
    done.again = true;
    done.wait = Duration(0);
  }
  if ((entry != nullptr && entry->subject == "token") || (unnamed && response.status == 400)) {
    done.refresh = true;
    done.again = !refreshed;
  }
  if (const auto seconds = parse_int(response.headers.get("Retry-After")); seconds) {
    done.wait = std::clamp(Duration(*seconds * 1'000), Duration(0), options_.max_delay);
  }
  return done;
}

bool S3Sender::is_skewed(const http::Response& response) const {
  const auto date = parse_http_date(response.headers.get("Date"));
  const WallTime now = clock_.now() + Duration(skew_ms_.load());
  return date && std::chrono::abs(*date - now) > std::chrono::minutes(5);
}

void S3Sender::learn_time(const http::Response& response) {
  const auto date = parse_http_date(response.headers.get("Date"));
  if (!date) {
    return;
  }
  const Duration skew = *date - clock_.now();
  skew_ms_ = skew.count();
  if (!warned_.exchange(true)) {
    log_warning("s3: the clock of this machine differs from the server's by " +
                std::to_string(skew.count() / 1'000) + " s; requests are signed with the server's");
  }
}

// Somewhere between half and all of `longest`: clients that failed together come back apart.
Result<void> S3Sender::pause(Duration longest, const std::stop_token& stop) {
  Mutex mutex;
  ConditionVariable never;
  std::stop_source both;
  const std::stop_callback by_client(options_.stop, [&both] { both.request_stop(); });
  const std::stop_callback by_caller(stop, [&both] { both.request_stop(); });
  Duration time{0};
  if (longest.count() > 0) {
    const MutexLock lock(mutex_);
    const auto half = static_cast<std::uint64_t>(longest.count() / 2);
    time = Duration(static_cast<std::int64_t>(half + random_.next() % (half + 1)));
  }
  std::unique_lock lock(mutex);
  never.wait_for(lock, both.get_token(), time, [] { return false; });
  if (both.stop_requested()) {
    return Error{Code::kCancelled, "stopped"};
  }
  return {};
}

}  // namespace trainyard::s3
