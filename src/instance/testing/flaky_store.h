// SPDX-License-Identifier: Apache-2.0
// For tests only: a store that fails when it is told to, as S3 does: with an error before or after
// the work was done, or by not answering until the call is broken off.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "testing/unserved_store.h"

namespace trainyard::instance {

// Serves what a mirror asks for.
class FlakyStore final : public s3::UnservedStore {
 public:
  enum class Mood { kWell, kFailing, kLosingAnswers, kSilent };

  FlakyStore(s3::ObjectStore& real, std::stop_token stop) : real_(real), stop_(std::move(stop)) {}

  void be(Mood mood) { mood_ = mood; }
  int failures() const { return failures_; }
  int puts() const { return puts_; }
  int at_once() const { return most_at_once_; }  // puts, the most
  // Called in each put with what was read of the body so far, before the next piece is read; and
  // when all of it was read, before it is stored.
  std::function<void(const std::string& key, std::uint64_t bytes)> on_read = {};
  std::function<void(const std::string& key)> on_put = {};

  Result<s3::ObjectInfo> put(const std::string& bucket, const std::string& key,
                             const s3::ByteSource& body, const s3::PutOptions& options) override {
    ++puts_;
    const int running = ++running_;
    int most = most_at_once_;
    while (running > most && !most_at_once_.compare_exchange_weak(most, running)) {
    }
    auto stored = call<s3::ObjectInfo>([&] {
      std::uint64_t bytes = 0;
      const s3::ByteSource source = [&, bytes](std::span<std::byte> out) mutable {
        if (on_read) {
          on_read(key, bytes);
        }
        Result<std::size_t> got = body(out);
        bytes += got ? *got : 0;
        if (got && *got == 0 && on_put) {
          on_put(key);
        }
        return got;
      };
      return real_.put(bucket, key, source, options);
    });
    --running_;
    return stored;
  }
  Result<std::unique_ptr<s3::ObjectReader>> get(const std::string& bucket, const std::string& key,
                                                std::optional<s3::ByteRange> range) override {
    return call<std::unique_ptr<s3::ObjectReader>>([&] { return real_.get(bucket, key, range); });
  }
  Result<s3::ObjectInfo> head(const std::string& bucket, const std::string& key) override {
    return call<s3::ObjectInfo>([&] { return real_.head(bucket, key); });
  }
  Result<void> remove(const std::string& bucket, const std::string& key) override {
    return call<void>([&] { return real_.remove(bucket, key); });
  }
  Result<s3::ListPage> list(const std::string& bucket, const s3::ListQuery& query) override {
    return call<s3::ListPage>([&] { return real_.list(bucket, query); });
  }

 private:
  static Error failure() { return Error{Code::kUnavailable, "InternalError: try again"}; }

  template <typename T, typename Real>
  Result<T> call(Real real) {
    switch (mood_.load()) {
      case Mood::kWell:
        return real();
      case Mood::kFailing:
        ++failures_;
        return failure();
      case Mood::kLosingAnswers: {
        const Result<T> lost = real();
        ++failures_;
        return failure();
      }
      case Mood::kSilent:
        while (!stop_.stop_requested()) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return Error{Code::kCancelled, "stopped"};
    }
    return failure();
  }

  s3::ObjectStore& real_;
  std::stop_token stop_;
  std::atomic<Mood> mood_ = Mood::kWell;
  std::atomic<int> failures_ = 0;
  std::atomic<int> puts_ = 0;
  std::atomic<int> running_ = 0;
  std::atomic<int> most_at_once_ = 0;
};

}  // namespace trainyard::instance
