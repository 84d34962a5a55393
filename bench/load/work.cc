// SPDX-License-Identifier: Apache-2.0
#include "bench/load/work.h"

#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/encoding.h"
#include "base/hash.h"
#include "bench/load/content.h"
#include "bench/load/pages.h"

namespace trainyard::load {
namespace {

// One request again and again, or one for each number.
class Repeated final : public Work {
 public:
  Repeated(const Plan& plan, const Clock& clock) : plan_(plan), clock_(clock) {
    if (plan_.content) {
      contents_ =
          make_contents(plan_.content->distinct, plan_.content->bytes, plan_.content->is_sent);
    }
  }

  Result<std::optional<Next>> next(std::size_t connection) override {
    const std::uint64_t index = given_++;
    const std::uint64_t modulo = plan_.request.modulo;
    const std::uint64_t number = plan_.request.first + (modulo > 0 ? index % modulo : index);
    Next next{.number = number, .path = fill(plan_.request.path, {.number = number})};
    // Signed once while it is the same request: the client's own work would be measured otherwise.
    const std::uint64_t slot = number * words() + connection % words();
    const bool comes_again = modulo > 0;
    if (const auto made = made_.find(slot); comes_again && made != made_.end()) {
      next.request = made->second;
      return std::optional(std::move(next));
    }
    next.request = prepare(
        {.number = number,
         .word = plan_.words.empty() ? std::string_view() : plan_.words[connection % words()]});
    if (comes_again) {
      made_.emplace(slot, next.request);
    }
    return std::optional(std::move(next));
  }

  Result<void> check(std::size_t /*connection*/, const Next& asked, const Answer& answer) override {
    const auto wrong = [&](const std::string& what) {
      return Error{Code::kCorrupt,
                   fmt::format("{} {}: {}", plan_.request.method, asked.path, what)};
    };
    if (answer.status != plan_.expect.status) {
      return wrong(fmt::format("status {} {}", answer.status, answer.text.substr(0, 500)));
    }
    if (plan_.content && !plan_.content->is_sent) {
      const Content& content = content_of(asked.number);
      if (answer.length != content.length || answer.checksum != content.checksum) {
        return wrong(fmt::format("{} bytes with checksum {:08x}, not {} with {:08x}", answer.length,
                                 answer.checksum, content.length, content.checksum));
      }
    }
    for (const std::string& text : plan_.expect.contains) {
      if (answer.text.find(text) == std::string::npos) {
        return wrong("no " + text + " in " + answer.text.substr(0, 500));
      }
    }
    if (plan_.expect.same && !first_) {
      first_ = {answer.length, answer.checksum};
    }
    if (plan_.expect.same && *first_ != std::pair(answer.length, answer.checksum)) {
      return wrong("another body than the first answer had");
    }
    return {};
  }

  // An error's text is looked into as well, where bodies are not large.
  bool looks_into_bodies() const override { return !plan_.content || plan_.content->is_sent; }

 private:
  std::size_t words() const { return std::max<std::size_t>(plan_.words.size(), 1); }
  const Content& content_of(std::uint64_t number) const {
    return contents_[number % contents_.size()];
  }

  std::shared_ptr<const Prepared> prepare(const Filling& filling) const {
    Prepared made;
    BodyFacts facts;
    if (plan_.content && plan_.content->is_sent) {
      const Content& content = content_of(filling.number);
      made.content = &content.bytes;
      facts = {.length = content.length, .sha256 = content.sha256};
    } else {
      made.own_body = fill(plan_.request.body, filling);
      facts = {.length = made.own_body.size(), .sha256 = sha256_hex(made.own_body)};
    }
    made.head = make_head(plan_, filling, facts, clock_.now());
    return std::make_shared<const Prepared>(std::move(made));
  }

  const Plan plan_;
  const Clock& clock_;
  std::vector<Content> contents_;
  std::uint64_t given_ = 0;
  std::map<std::uint64_t, std::shared_ptr<const Prepared>> made_;
  std::optional<std::pair<std::uint64_t, std::uint32_t>> first_;  // length and checksum
};

}  // namespace

std::string make_head(const Plan& plan, const Filling& filling, const BodyFacts& body,
                      WallTime now) {
  http::Request request{.method = plan.request.method,
                        .path = fill(plan.request.path, filling),
                        .query = fill(plan.request.query, filling)};
  request.headers.add("Host", fmt::format("{}:{}", plan.address, plan.port));
  for (const auto& [name, value] : plan.request.headers) {
    request.headers.add(name, value);
  }
  if (plan.credentials) {
    http::sign(request, body.sha256, *plan.credentials, plan.scope, now);
  }
  std::string head = fmt::format("{} {}{}{} HTTP/1.1\r\n", request.method, request.path,
                                 request.query.empty() ? "" : "?", request.query);
  for (const auto& [name, value] : request.headers.fields()) {
    head += fmt::format("{}: {}\r\n", name, value);
  }
  if (body.length > 0 || request.method == "POST" || request.method == "PUT") {
    head += fmt::format("Content-Length: {}\r\n", body.length);
  }
  return head + "\r\n";
}

std::unique_ptr<Work> make_work(const Plan& plan, const Clock& clock) {
  if (plan.pages) {
    return std::make_unique<Pages>(plan, clock);
  }
  return std::make_unique<Repeated>(plan, clock);
}

}  // namespace trainyard::load
