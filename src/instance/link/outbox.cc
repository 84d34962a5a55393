// SPDX-License-Identifier: Apache-2.0
#include "instance/link/outbox.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"

namespace trainyard::instance {
namespace {

// Before each report in the spool: its sequence number and its length, in this machine's order.
struct SpoolHead {
  std::int64_t seq = 0;
  std::uint64_t length = 0;
};

}  // namespace

bool Outbox::push(std::int64_t seq, std::string text, bool must_keep) {
  const bool spooling = read_ < written_;
  if (!spooling && bytes_ + text.size() <= limit_) {
    bytes_ += text.size();
    waiting_.push_back({seq, std::move(text)});
    return true;
  }
  const Result<void> spooled = spool(seq, text);
  if (spooled) {
    return true;
  }
  // A full disk. Facts are small and few; order among them is kept unless older ones are spooled,
  // and those are unreachable only as long as the disk fails.
  if (!must_keep) {
    return false;
  }
  log_error("report kept in memory: " + spooled.error().message);
  bytes_ += text.size();
  waiting_.push_back({seq, std::move(text)});
  return true;
}

std::string Outbox::batch(std::size_t bytes) const {
  std::string list = "[";
  for (const Entry& entry : waiting_) {
    if (list.size() > 1 && list.size() + entry.text.size() > bytes) {
      break;
    }
    list += (list.size() > 1 ? "," : "") + entry.text;
  }
  return list + "]";
}

void Outbox::acknowledge(std::int64_t seq) {
  while (!waiting_.empty() && waiting_.front().seq <= seq) {
    bytes_ -= waiting_.front().text.size();
    waiting_.pop_front();
  }
  if (read_ < written_ && bytes_ < limit_ / 2) {
    if (const Result<void> loaded = load(); !loaded) {
      log_error("reports lost: " + loaded.error().message);
      read_ = written_;
    }
  }
}

Result<void> Outbox::spool(std::int64_t seq, const std::string& text) {
  if (!spool_.is_open()) {
    YARD_TRY(spool_, open_file(spool_path_, O_RDWR | O_CREAT | O_TRUNC, 0600));
  }
  const SpoolHead head{.seq = seq, .length = text.size()};
  std::string record(sizeof head, '\0');
  std::memcpy(record.data(), &head, sizeof head);
  record += text;
  std::size_t done = 0;
  while (done < record.size()) {
    const ssize_t count = pwrite(spool_.get(), record.data() + done, record.size() - done,
                                 static_cast<off_t>(written_ + done));
    if (count < 0 && errno != EINTR) {
      return errno_error("write " + spool_path_.string(), errno);
    }
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  written_ += record.size();
  return {};
}

Result<void> Outbox::load() {
  const auto read_exactly = [&](char* out, std::size_t size) -> Result<void> {
    for (std::size_t done = 0; done < size;) {
      const std::span<char> rest(out + done, size - done);
      YARD_TRY(const std::size_t got,
               read_at(spool_.get(), std::as_writable_bytes(rest), read_ + done));
      if (got == 0) {
        return Error{Code::kCorrupt, spool_path_.string() + " is shorter than what was written"};
      }
      done += got;
    }
    read_ += size;
    return {};
  };
  while (read_ < written_ && bytes_ < limit_) {
    std::array<char, sizeof(SpoolHead)> raw;
    YARD_TRY(read_exactly(raw.data(), raw.size()));
    SpoolHead head;
    std::memcpy(&head, raw.data(), sizeof head);
    Entry entry{.seq = head.seq, .text = std::string(head.length, '\0')};
    YARD_TRY(read_exactly(entry.text.data(), entry.text.size()));
    bytes_ += entry.text.size();
    waiting_.push_back(std::move(entry));
  }
  if (read_ == written_) {
    read_ = written_ = 0;
    if (ftruncate(spool_.get(), 0) != 0) {
      return errno_error("empty " + spool_path_.string(), errno);
    }
  }
  return {};
}

}  // namespace trainyard::instance
