// SPDX-License-Identifier: Apache-2.0
#include "http/client.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include <curl/curl.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/text.h"
#include "http/internal/url.h"

namespace trainyard::http {
namespace {

constexpr std::size_t kMaxErrorBody = std::size_t{1} << 20;
constexpr std::size_t kMaxBody = std::size_t{256} << 20;
// Asking first costs a round trip; below this size the body costs less.
constexpr std::uint64_t kMinExpect = std::uint64_t{1} << 20;
constexpr std::size_t kMaxIdlePerOrigin = 32;
constexpr std::size_t kMaxOrigins = 64;

struct EasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct MultiDeleter {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// One handle and the connections that it has opened, used by one call at a time. A multi of its own
// rather than curl_easy_perform: only a multi can be woken by another thread.
struct Session {
  std::unique_ptr<CURLM, MultiDeleter> multi{curl_multi_init()};
  std::unique_ptr<CURL, EasyDeleter> easy{curl_easy_init()};
};

bool is_success(long status) {
  return status >= 200 && status < 300;
}

// One request on one session: the options, the callbacks that libcurl calls, and the loop.
class Transfer {
 public:
  Transfer(Session& session, const std::string& ca_bundle, const ClientRequest& request)
      : easy_(session.easy.get()),
        multi_(session.multi.get()),
        ca_bundle_(ca_bundle),
        request_(request) {}

  Result<Response> run();

 private:
  Result<void> set_options();
  void set_method_and_body();
  Result<void> set_headers();
  CURLcode perform();
  Error error_of(CURLcode code) const;

  std::size_t take_header(std::string_view line);
  std::size_t take_body(std::span<const std::byte> bytes);
  std::size_t give_body(std::span<std::byte> out);
  long status() const;

  template <typename T>
  void set(CURLoption option, T value) {
    curl_easy_setopt(easy_, option, value);
  }

  CURL* easy_;
  CURLM* multi_;
  const std::string& ca_bundle_;
  const ClientRequest& request_;
  const SystemClock clock_;
  std::unique_ptr<curl_slist, ListDeleter> list_;
  std::array<char, CURL_ERROR_SIZE> message_{};
  Response response_;
  std::uint64_t uploaded_ = 0;
  SteadyTime last_progress_ = clock_.steady_now();
  std::optional<Error> failure_;  // of a callback, or ours: wins over curl's code
};

long Transfer::status() const {
  long status = 0;
  curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

std::size_t Transfer::take_header(std::string_view line) {
  last_progress_ = clock_.steady_now();
  if (line.starts_with("HTTP/")) {
    response_.headers = {};  // an interim answer (100) came before
    return line.size();
  }
  const std::size_t colon = line.find(':');
  if (colon != std::string_view::npos) {
    response_.headers.add(std::string(trim(line.substr(0, colon))),
                          std::string(trim(line.substr(colon + 1))));
  }
  return line.size();
}

std::size_t Transfer::take_body(std::span<const std::byte> bytes) {
  last_progress_ = clock_.steady_now();
  const bool good = is_success(status());
  if (good && request_.download) {
    if (auto taken = request_.download(bytes); !taken) {
      failure_ = std::move(taken).error();
      return 0;
    }
    last_progress_ = clock_.steady_now();
    return bytes.size();
  }
  std::string& body = response_.body;
  if (good && body.size() + bytes.size() > kMaxBody) {
    failure_ = Error{Code::kExhausted, "the answer is longer than " + human_bytes(kMaxBody)};
    return 0;
  }
  const std::size_t limit = good ? kMaxBody : kMaxErrorBody;
  const std::size_t kept = std::min(bytes.size(), limit - std::min(limit, body.size()));
  body.append(reinterpret_cast<const char*>(bytes.data()), kept);
  return bytes.size();
}

std::size_t Transfer::give_body(std::span<std::byte> out) {
  const std::uint64_t left = request_.upload_length - uploaded_;
  if (left == 0) {
    return 0;
  }
  auto given = request_.upload(
      out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), left))));
  last_progress_ = clock_.steady_now();
  if (given && *given == 0) {
    given = Error{Code::kCorrupt, "the body ended after " + std::to_string(uploaded_) + " of " +
                                      std::to_string(request_.upload_length) + " bytes"};
  }
  if (!given) {
    failure_ = std::move(given).error();
    return CURL_READFUNC_ABORT;
  }
  uploaded_ += *given;
  return *given;
}

void Transfer::set_method_and_body() {
  if (request_.upload) {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request_.upload_length));
    set(CURLOPT_READDATA, this);
    set(
        CURLOPT_READFUNCTION, +[](char* out, std::size_t size, std::size_t count, void* self) {
          return static_cast<Transfer*>(self)->give_body(
              std::as_writable_bytes(std::span(out, size * count)));
        });
    // A stream cannot be sent again, unless nothing has been taken from it.
    set(CURLOPT_SEEKDATA, this);
    set(
        CURLOPT_SEEKFUNCTION, +[](void* self, curl_off_t offset, int origin) {
          const bool is_at_start = static_cast<Transfer*>(self)->uploaded_ == 0;
          return offset == 0 && origin == SEEK_SET && is_at_start ? CURL_SEEKFUNC_OK
                                                                  : CURL_SEEKFUNC_FAIL;
        });
  } else if (!request_.body.empty() || request_.method == "POST" || request_.method == "PUT") {
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
    set(CURLOPT_POSTFIELDS, request_.body.data());
  } else if (request_.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
    return;
  }
  set(CURLOPT_CUSTOMREQUEST, request_.method.c_str());
}

// What curl would add by itself (Accept, Content-Type, Expect) goes out only when it was asked for.
Result<void> Transfer::set_headers() {
  std::vector<std::string> lines;
  for (const auto& [name, value] : request_.headers.fields()) {
    const std::string_view breaks("\r\n\0", 3);
    if (name.find_first_of(breaks) != std::string::npos ||
        value.find_first_of(breaks) != std::string::npos) {
      return Error{Code::kInvalidArgument, "a header holds a line break"};
    }
    if (!equal_ignoring_case(name, "Content-Length")) {  // curl knows the length
      std::string line = name;
      lines.push_back(value.empty() ? line.append(";") : line.append(": ").append(value));
    }
  }
  for (const std::string_view name : {"Accept", "Content-Type"}) {
    if (request_.headers.find(name) == nullptr) {
      lines.push_back(std::string(name) + ":");
    }
  }
  const std::uint64_t size = request_.upload ? request_.upload_length : request_.body.size();
  if (request_.headers.find("Expect") == nullptr) {
    lines.emplace_back(size > kMinExpect ? "Expect: 100-continue" : "Expect:");
  }
  for (const std::string& line : lines) {
    curl_slist* shorter = list_.release();  // still the list when memory is out
    curl_slist* longer = curl_slist_append(shorter, line.c_str());
    list_.reset(longer == nullptr ? shorter : longer);
    if (longer == nullptr) {
      return Error{Code::kExhausted, "out of memory"};
    }
  }
  set(CURLOPT_HTTPHEADER, list_.get());
  return {};
}

Result<void> Transfer::set_options() {
  YARD_TRY(const UrlHost host, host_of(request_.url));
  set(CURLOPT_URL, request_.url.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_ERRORBUFFER, message_.data());
  set(CURLOPT_BUFFERSIZE, 128L << 10);
  set(CURLOPT_UPLOAD_BUFFERSIZE, 128L << 10);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request_.connect_timeout.count()));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(request_.timeout.count()));
  if (!request_.keep) {
    set(CURLOPT_FRESH_CONNECT, 1L);
    set(CURLOPT_FORBID_REUSE, 1L);
  }
  if (host.is_private) {
    set(CURLOPT_PROXY, "");  // not even the environment's
  }
  if (!ca_bundle_.empty()) {
    set(CURLOPT_CAINFO, ca_bundle_.c_str());
    set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  }
  set(CURLOPT_HEADERDATA, this);
  set(
      CURLOPT_HEADERFUNCTION, +[](char* line, std::size_t size, std::size_t count, void* self) {
        return static_cast<Transfer*>(self)->take_header({line, size * count});
      });
  set(CURLOPT_WRITEDATA, this);
  set(
      CURLOPT_WRITEFUNCTION, +[](char* bytes, std::size_t size, std::size_t count, void* self) {
        return static_cast<Transfer*>(self)->take_body(
            std::as_bytes(std::span(bytes, size * count)));
      });
  set_method_and_body();
  return set_headers();
}

// Drives the transfer to its end. A stop wakes the poll at once.
CURLcode Transfer::perform() {
  const std::stop_callback wake(request_.stop, [multi = multi_] { curl_multi_wakeup(multi); });
  int running = 1;
  while (true) {
    curl_multi_perform(multi_, &running);
    if (running == 0) {
      break;
    }
    if (request_.stop.stop_requested()) {
      failure_ = Error{Code::kCancelled, "stopped"};
      return CURLE_ABORTED_BY_CALLBACK;
    }
    const SteadyTime stalled = last_progress_ + request_.stall_timeout;
    const auto left = std::chrono::ceil<Duration>(stalled - clock_.steady_now());
    if (request_.stall_timeout.count() > 0 && left.count() <= 0) {
      failure_ = Error{Code::kDeadline,
                       "no byte for " + std::to_string(request_.stall_timeout.count()) + " ms"};
      return CURLE_OPERATION_TIMEDOUT;
    }
    const auto pause =
        request_.stall_timeout.count() > 0 ? std::min(left, Duration(1'000)) : Duration(1'000);
    curl_multi_poll(multi_, nullptr, 0, static_cast<int>(pause.count()), nullptr);
  }
  int waiting = 0;
  const CURLMsg* message = curl_multi_info_read(multi_, &waiting);
  return message != nullptr ? message->data.result : CURLE_FAILED_INIT;
}

Error Transfer::error_of(CURLcode code) const {
  // The query may hold a signature: it stays out of messages.
  const std::string what = request_.method + " " + request_.url.substr(0, request_.url.find('?'));
  if (failure_) {
    return failure_->in(what);
  }
  const std::string text =
      what + ": " + (message_[0] != '\0' ? message_.data() : curl_easy_strerror(code));
  double connected = 0;
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      curl_easy_getinfo(easy_, CURLINFO_PRETRANSFER_TIME, &connected);
      return {connected > 0 ? Code::kDeadline : Code::kUnavailable, text};
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return {Code::kInvalidArgument, text};
    case CURLE_PEER_FAILED_VERIFICATION:
      return {Code::kDenied, text};
    case CURLE_OUT_OF_MEMORY:
      return {Code::kExhausted, text};
    default:
      return {Code::kUnavailable, text};
  }
}

Result<Response> Transfer::run() {
  YARD_TRY(set_options());
  curl_multi_add_handle(multi_, easy_);
  const CURLcode code = perform();
  response_.status = static_cast<int>(status());
  std::optional<Error> error;
  if (code != CURLE_OK || failure_) {
    error = error_of(code);
  }
  curl_multi_remove_handle(multi_, easy_);
  curl_easy_reset(easy_);  // it pointed into this transfer; its connections stay
  if (error) {
    return *std::move(error);
  }
  return std::move(response_);
}

class CurlClient final : public Client {
 public:
  explicit CurlClient(std::string ca_bundle) : ca_bundle_(std::move(ca_bundle)) {}

  Result<Response> send(const ClientRequest& request) override {
    if (request.stop.stop_requested()) {
      return Error{Code::kCancelled, "stopped"};
    }
    YARD_TRY(const UrlHost host, host_of(request.url));
    std::unique_ptr<Session> session = take(host.origin);
    if (session->easy == nullptr || session->multi == nullptr) {
      return Error{Code::kExhausted, "out of memory"};
    }
    auto response = Transfer(*session, ca_bundle_, request).run();
    give_back(host.origin, std::move(session));
    return response;
  }

 private:
  // The session used last for that origin: its connection is the warmest.
  std::unique_ptr<Session> take(const std::string& origin) {
    const MutexLock lock(mutex_);
    auto& idle = idle_[origin];
    if (idle.empty()) {
      return std::make_unique<Session>();
    }
    std::unique_ptr<Session> session = std::move(idle.back());
    idle.pop_back();
    return session;
  }

  void give_back(const std::string& origin, std::unique_ptr<Session> session) {
    std::map<std::string, std::vector<std::unique_ptr<Session>>> forgotten;  // closed unlocked
    const MutexLock lock(mutex_);
    if (idle_.size() > kMaxOrigins) {
      forgotten.swap(idle_);
    }
    auto& idle = idle_[origin];
    if (idle.size() < kMaxIdlePerOrigin) {
      idle.push_back(std::move(session));
    }
  }

  const std::string ca_bundle_;
  Mutex mutex_;
  std::map<std::string, std::vector<std::unique_ptr<Session>>> idle_ GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Client> Client::make(std::string ca_bundle) {
  // Thread-safe since 7.84, and counted.
  static const CURLcode kInitialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)kInitialised;
  return std::make_unique<CurlClient>(std::move(ca_bundle));
}

}  // namespace trainyard::http
