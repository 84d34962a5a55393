// SPDX-License-Identifier: Apache-2.0
#include "instance/testing/fake_server.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/encoding.h"
#include "base/text.h"
#include "instance/testing/proving.h"

namespace trainyard::instance {

using nlohmann::json;
using std::chrono::seconds;

namespace {

http::Response answer(int status, std::string body = {}) {
  return {.status = status, .headers = {}, .body = std::move(body)};
}

s3::ByteSource source_of(const std::string& text) {
  return [&text, at = std::size_t{0}](std::span<std::byte> out) mutable -> Result<std::size_t> {
    const std::size_t count = std::min(out.size(), text.size() - at);
    std::copy_n(reinterpret_cast<const std::byte*>(text.data()) + at, count, out.begin());
    at += count;
    return count;
  };
}

std::string query_value(const http::Request& request, const std::string& name) {
  const auto query = http::parse_query(request.query);
  for (const auto& [key, value] : query ? *query : decltype(query)::value_type{}) {
    if (key == name) {
      return value;
    }
  }
  return {};
}

}  // namespace

FakeServer::FakeServer(const Path& directory, wire::Assignment assignment)
    : assignment_(std::move(assignment)) {
  auto store = s3::DirectoryStore::open(directory, clock_, random_);
  EXPECT_TRUE(store) << store.error().message;
  store_ = std::move(*store);
  EXPECT_TRUE(store_->create_bucket("bucket"));
  credentials = {.role_arn = "arn:aws:iam::123456789012:role/r",
                 .access_key_id = "ASIAX",
                 .secret_access_key = "secret",
                 .session_token = "token",
                 .expires = clock_.now() + seconds(3600)};
  auto server = http::Server::start(
      {}, [this](std::unique_ptr<http::Exchange> exchange) { handle(std::move(exchange)); });
  server_ = std::move(*server);
  url_ = "http://127.0.0.1:" + std::to_string(*server_->listen("127.0.0.1", 0, "test"));
  assignment_.server = url_;
}

FakeServer::~FakeServer() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  server_->stop(seconds(5));
}

void FakeServer::put(const std::string& key, const std::string& text) {
  EXPECT_TRUE(store_->put("bucket", key, source_of(text), {}));
}

std::string FakeServer::get(const std::string& key) {
  auto reader = store_->get("bucket", key, std::nullopt);
  std::string text;
  std::vector<std::byte> chunk(65536);
  while (reader) {
    const auto count = (*reader)->read(chunk);
    if (!count || *count == 0) {
      break;
    }
    text.append(reinterpret_cast<const char*>(chunk.data()), *count);
  }
  return text;
}

void FakeServer::send(wire::Command command) {
  const MutexLock lock(mutex_);
  command.seq = static_cast<std::int64_t>(commands_.size()) + 1;
  commands_.push_back(std::move(command));
  changed_.notify_all();
}

void FakeServer::begin_attempt(int epoch) {
  const MutexLock lock(mutex_);
  assignment_.epoch = epoch;
  commands_.clear();
  reports_.clear();
  seen_ = 0;
  changed_.notify_all();
}

void FakeServer::be_away(bool away) {
  const MutexLock lock(mutex_);
  away_ = away;
}

void FakeServer::be_away_from(wire::Phase phase) {
  const MutexLock lock(mutex_);
  away_from_ = phase;
}

void FakeServer::deny(bool deny) {
  const MutexLock lock(mutex_);
  deny_ = deny;
  changed_.notify_all();
}

void FakeServer::refuse_puts(int times, int status, std::string name) {
  const MutexLock lock(mutex_);
  puts_to_refuse_ = times;
  refusal_status_ = status;
  refusal_ = "<Error><Code>" + std::move(name) + "</Code></Error>";
}

bool FakeServer::wait_until(const std::function<bool()>& condition) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, seconds(30), condition);
}

bool FakeServer::has_phase(wire::Phase phase) const {
  const auto all = phases();
  return std::find(all.begin(), all.end(), phase) != all.end();
}

std::vector<wire::Phase> FakeServer::phases() const {
  std::vector<wire::Phase> phases;
  for (const wire::Report& report : reports_) {
    if (report.phase) {
      phases.push_back(*report.phase);
    }
  }
  return phases;
}

std::vector<std::string> FakeServer::lines() const {
  std::vector<std::string> lines;
  for (const wire::Report& report : reports_) {
    for (const wire::LogLine& line : report.lines) {
      lines.push_back(line.text);
    }
  }
  return lines;
}

WallTime FakeServer::time_of_line(const std::string& text) const {
  for (const wire::Report& report : reports_) {
    for (const wire::LogLine& line : report.lines) {
      if (line.text == text) {
        return line.at;
      }
    }
  }
  return {};
}

void FakeServer::handle(std::unique_ptr<http::Exchange> exchange) {
  if (exchange->request().path.starts_with("/yard/")) {
    protocol(*exchange);
  } else {
    objects(*exchange);
  }
}

static std::string phase_member(wire::Phase phase) {
  return "\"phase\":\"" + std::string(name_of(phase)) + "\"";
}

// Proves every answer to who has proved his request, as the server does.
void FakeServer::protocol(http::Exchange& exchange) {
  const std::string body = exchange.read_all(std::size_t{16} << 20).value_or("[]");
  const http::Request& request = exchange.request();
  const std::string target = request.path + (request.query.empty() ? "" : "?" + request.query);
  const Result<wire::Claim> claim = proven_claim(request.method, target, request.headers, body);
  if (!claim) {
    ADD_FAILURE() << "no proof in " << request.method << " " << target;
    return exchange.respond(answer(403));
  }
  exchange.respond(proven_answer(*claim, answer_to(request, body)));
}

http::Response FakeServer::answer_to(const http::Request& request, const std::string& body) {
  {
    const MutexLock lock(mutex_);
    if (deny_) {
      return answer(403);
    }
    away_ = away_ || (away_from_ && body.find(phase_member(*away_from_)) != std::string::npos);
    if (away_) {
      ++refused_;
      changed_.notify_all();
      return answer(503);
    }
  }
  const Result<std::int64_t> epoch = parse_int(request.headers.get(wire::kEpochHeader));
  if (request.path != "/yard/v1/assignment" && (!epoch || *epoch != assignment_.epoch)) {
    EXPECT_TRUE(epoch) << "no epoch in " << request.path;
    return answer_to_old(request, body);
  }
  if (request.path == "/yard/v1/assignment") {
    const MutexLock lock(mutex_);
    assigned_at_ = clock_.now();
    return answer(200, wire::to_json(assignment_).dump());
  }
  if (request.path == "/yard/v1/credentials") {
    return answer(200, wire::to_json(credentials).dump());
  }
  if (request.path == "/yard/v1/commands") {
    return answer(200, wait_for_commands(*parse_int(query_value(request, "after"))));
  }
  return answer(200, take_reports(body));
}

http::Response FakeServer::answer_to_old(const http::Request& request, const std::string& body) {
  const MutexLock lock(mutex_);
  if (request.path == "/yard/v1/commands") {
    ++restarts_;
    changed_.notify_all();
    const std::int64_t seq = *parse_int(query_value(request, "after")) + 1;
    const wire::Command restart{.seq = seq, .kind = wire::Command::Kind::kRestart};
    return answer(200, json::array({wire::to_json(restart)}).dump());
  }
  if (request.path == "/yard/v1/credentials") {
    return answer(409);
  }
  std::int64_t highest = 0;
  for (const json& item : json::parse(body)) {
    highest = std::max(highest, wire::report_from_json(item)->seq);
    dropped_ += highest > 0 ? 1 : 0;
  }
  return answer(200, json{{"acknowledged", highest}}.dump());
}

std::string FakeServer::take_reports(const std::string& body) {
  std::vector<wire::Report> fresh;
  std::string acknowledged;
  {
    const MutexLock lock(mutex_);
    for (const json& item : json::parse(body)) {
      wire::Report report = *wire::report_from_json(item);
      if (report.seq > seen_) {
        EXPECT_EQ(report.seq, seen_ + 1) << "a report was left out";
        seen_ = report.seq;
        fresh.push_back(report);
        reports_.push_back(std::move(report));
      }
    }
    acknowledged = json{{"acknowledged", seen_}}.dump();
    changed_.notify_all();
  }
  for (const wire::Report& report : fresh) {
    if (callback_) {
      callback_(report);
    }
  }
  return acknowledged;
}

std::string FakeServer::wait_for_commands(std::int64_t after) {
  std::unique_lock lock(mutex_);
  const auto next = static_cast<std::size_t>(after);
  const int epoch = assignment_.epoch;
  changed_.wait_for(lock, seconds(2), [&] {
    return closing_ || assignment_.epoch != epoch || commands_.size() > next;
  });
  if (assignment_.epoch != epoch) {
    return "[]";  // it asks again, and hears the restart
  }
  json list = json::array();
  for (std::size_t i = next; i < commands_.size(); ++i) {
    list.push_back(wire::to_json(commands_[i]));
  }
  return list.dump();
}

void FakeServer::objects(http::Exchange& exchange) {
  const http::Request& request = exchange.request();
  const std::string path = uri_decode(request.path.substr(1)).value_or("");
  const std::size_t slash = path.find('/');
  const std::string bucket = path.substr(0, slash);
  const std::string key = slash == std::string::npos ? "" : path.substr(slash + 1);
  if (request.headers.get("Authorization").empty()) {
    exchange.respond(answer(403));
  } else if (key.empty()) {
    list(exchange, bucket);
  } else if (request.method == "PUT") {
    put_object(exchange, bucket, key);
  } else {
    get_object(exchange, bucket, key);
  }
}

void FakeServer::list(http::Exchange& exchange, const std::string& bucket) {
  const auto page = store_->list(bucket, {.prefix = query_value(exchange.request(), "prefix")});
  std::string xml = "<ListBucketResult><IsTruncated>false</IsTruncated>";
  for (const s3::ObjectInfo& object : page ? page->objects : std::vector<s3::ObjectInfo>{}) {
    xml += "<Contents><Key>" + uri_encode(object.key) + "</Key><Size>" +
           std::to_string(object.size) + "</Size><ETag>\"" + object.etag +
           "\"</ETag><LastModified>" + to_iso8601(object.last_modified) +
           "</LastModified></Contents>";
  }
  exchange.respond(answer(200, xml + "<EncodingType>url</EncodingType></ListBucketResult>"));
}

void FakeServer::get_object(http::Exchange& exchange, const std::string& bucket,
                            const std::string& key) {
  const auto info = store_->head(bucket, key);
  if (!info) {
    return exchange.respond(answer(404, "<Error><Code>NoSuchKey</Code></Error>"));
  }
  std::string body = get(key);
  {
    const MutexLock lock(mutex_);
    fetched_.push_back(key);
  }
  http::Response response = answer(200);
  response.headers.set("ETag", "\"" + info->etag + "\"");
  response.headers.set("Last-Modified", to_http_date(info->last_modified));
  const std::string_view range = exchange.request().headers.get("Range");
  if (range.starts_with("bytes=") && !body.empty()) {
    const std::size_t dash = range.find('-');
    const auto first = static_cast<std::size_t>(*parse_int(range.substr(6, dash - 6)));
    const auto last = static_cast<std::size_t>(
        parse_int(range.substr(dash + 1)).value_or(static_cast<std::int64_t>(body.size()) - 1));
    const std::size_t end = std::min(last + 1, body.size());
    response.status = 206;
    response.headers.set("Content-Range", "bytes " + std::to_string(first) + "-" +
                                              std::to_string(end - 1) + "/" +
                                              std::to_string(body.size()));
    body = body.substr(first, end - first);
  } else if (range.starts_with("bytes=")) {
    response.status = 416;
  }
  response.body = std::move(body);
  exchange.respond(std::move(response));
}

void FakeServer::put_object(http::Exchange& exchange, const std::string& bucket,
                            const std::string& key) {
  {
    const MutexLock lock(mutex_);
    if (puts_to_refuse_ > 0) {
      --puts_to_refuse_;
      return exchange.respond(answer(refusal_status_, refusal_));
    }
  }
  const auto stored = store_->put(
      bucket, key, [&](std::span<std::byte> out) { return exchange.read_body(out); }, {});
  http::Response response = answer(stored ? 200 : 500);
  if (stored) {
    response.headers.set("ETag", "\"" + stored->etag + "\"");
  }
  exchange.respond(std::move(response));
}

}  // namespace trainyard::instance
