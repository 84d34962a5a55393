// SPDX-License-Identifier: Apache-2.0
// For tests only: a server as an instance sees it. It speaks the instance protocol, serves S3 over
// a DirectoryStore as far as S3Client asks for it, and records every report once, in order.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/random.h"
#include "http/server.h"
#include "s3/directory/directory_store.h"
#include "wire/messages.h"

namespace trainyard::instance {

class FakeServer {
 public:
  // Serves one instance, whose assignment is `assignment` with the server's own address put in.
  // Objects are kept below `directory`; the bucket is "bucket".
  FakeServer(const Path& directory, wire::Assignment assignment);
  ~FakeServer();

  std::string url() const { return url_; }
  s3::DirectoryStore& store() { return *store_; }
  void put(const std::string& key, const std::string& text);
  std::string get(const std::string& key);

  void send(wire::Command command);  // numbers it
  // From here on calls of an older attempt hear "restart", and what they report is dropped. Reports
  // and commands start from nothing.
  void begin_attempt(int epoch);
  // Called with every new report, from a thread of the server.
  void on_report(std::function<void(const wire::Report&)> callback) {
    callback_ = std::move(callback);
  }
  void be_away(bool away);  // 503 for everything of the protocol
  // The same from the report of this phase on, which it does not take.
  void be_away_from(wire::Phase phase);
  void deny(bool deny);  // 403 for everything of the protocol
  // The next so many objects that are put are answered with this error of S3's.
  void refuse_puts(int times, int status, std::string name);
  wire::Credentials credentials;

  // Waits until the condition holds for what was reported; false when the time is over.
  bool wait_until(const std::function<bool()>& condition);
  // All below: call them inside wait_until's condition, or when the instance is gone.
  bool has_phase(wire::Phase phase) const;
  std::vector<wire::Phase> phases() const;
  std::vector<std::string> lines() const;
  const std::vector<wire::Report>& reports() const { return reports_; }
  WallTime assigned_at() const { return assigned_at_; }
  int refused() const { return refused_; }    // requests while it was away
  int dropped() const { return dropped_; }    // reports of older attempts
  int restarts() const { return restarts_; }  // polls of older attempts
  // Objects that were read, in order.
  const std::vector<std::string>& fetched() const { return fetched_; }
  WallTime time_of_line(const std::string& text) const;

 private:
  void handle(std::unique_ptr<http::Exchange> exchange);
  void protocol(http::Exchange& exchange);
  std::string take_reports(const std::string& body);
  http::Response answer_to(const http::Request& request, const std::string& body);
  http::Response answer_to_old(const http::Request& request, const std::string& body);
  std::string wait_for_commands(std::int64_t after);
  void objects(http::Exchange& exchange);
  void list(http::Exchange& exchange, const std::string& bucket);
  void get_object(http::Exchange& exchange, const std::string& bucket, const std::string& key);
  void put_object(http::Exchange& exchange, const std::string& bucket, const std::string& key);

  SystemClock clock_;
  SystemRandom random_;
  std::unique_ptr<s3::DirectoryStore> store_;
  wire::Assignment assignment_;
  std::string url_;
  std::function<void(const wire::Report&)> callback_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<wire::Report> reports_;
  std::vector<wire::Command> commands_;
  std::int64_t seen_ = 0;
  WallTime assigned_at_{};
  bool away_ = false;
  int refused_ = 0;
  int dropped_ = 0;
  int restarts_ = 0;
  std::vector<std::string> fetched_;
  bool deny_ = false;
  int puts_to_refuse_ = 0;
  int refusal_status_ = 0;
  std::string refusal_;
  std::optional<wire::Phase> away_from_;
  bool closing_ = false;
  std::unique_ptr<http::Server> server_;
};

}  // namespace trainyard::instance
