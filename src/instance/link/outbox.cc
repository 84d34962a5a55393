// SPDX-License-Identifier: Apache-2.0
#include "instance/link/outbox.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"

namespace trainyard::instance {
namespace {

constexpr std::uint64_t kHole = std::uint64_t{1} << 20;  // whole blocks of any file system

// Before each report in the spool: its sequence number and its length, in this machine's order.
struct SpoolHead {
  std::int64_t seq = 0;
  std::uint64_t length = 0;
};

std::string nothing(std::int64_t seq) {
  return "{\"seq\":" + std::to_string(seq) + "}";
}

}  // namespace

bool may_grow(std::uint64_t taken, const std::filesystem::space_info& disk,
              const SpoolBounds& bounds) {
  return taken < bounds.bytes && disk.available >= std::min(bounds.spare, disk.capacity / 10);
}

bool Outbox::push(std::int64_t seq, std::string text, bool must_keep) {
  const bool spooling = read_ < written_;
  Entry entry{.seq = seq, .text = std::move(text)};
  if (!spooling && bytes_ + entry.text.size() <= limit_) {
    wait(std::move(entry));
    return true;
  }
  if (!must_keep && !may_spool_lines()) {
    return false;
  }
  Result<void> spooled = spool_behind();
  if (spooled) {
    spooled = spool(entry);
  }
  if (spooled || !must_keep) {
    return spooled.has_value();
  }
  // A full disk. Facts are small and few.
  log_error("report kept in memory: " + spooled.error().message);
  if (spooling) {
    behind_.push_back(std::move(entry));
  } else {
    wait(std::move(entry));
  }
  return true;
}

void Outbox::wait(Entry entry) {
  bytes_ += entry.text.size();
  waiting_.push_back(std::move(entry));
}

// A file system that does not say what is free counts as empty: whether it takes them is seen then.
bool Outbox::may_spool_lines() const {
  std::error_code failed;
  return may_grow(written_ - freed_, std::filesystem::space(spool_path_.parent_path(), failed),
                  bounds_);
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

bool Outbox::acknowledge(std::int64_t seq) {
  const bool is_news = !waiting_.empty() && waiting_.front().seq <= seq;
  while (!waiting_.empty() && waiting_.front().seq <= seq) {
    bytes_ -= waiting_.front().text.size();
    waiting_.pop_front();
  }
  if (read_ == written_ || bytes_ >= limit_ / 2) {
    return is_news;
  }
  if (const Result<void> loaded = load(); !loaded) {
    log_error("reports lost: " + loaded.error().message);
    give_up_spool();
  }
  if (read_ == written_) {
    finish_spool();
  }
  return is_news;
}

// A disk that was full may have room again.
Result<void> Outbox::spool_behind() {
  while (!behind_.empty()) {
    YARD_TRY(spool(behind_.front()));
    behind_.pop_front();
  }
  return {};
}

Result<void> Outbox::spool(const Entry& entry) {
  if (!spool_.is_open()) {
    YARD_TRY(spool_, open_file(spool_path_, O_RDWR | O_CREAT | O_TRUNC, 0600));
    // Its bytes are free again however we end.
    static_cast<void>(unlink(spool_path_.c_str()));
  }
  const SpoolHead head{.seq = entry.seq, .length = entry.text.size()};
  std::string record(sizeof head, '\0');
  std::memcpy(record.data(), &head, sizeof head);
  record += entry.text;
  std::size_t done = 0;
  while (done < record.size()) {
    const ssize_t count = pwrite(spool_.get(), record.data() + done, record.size() - done,
                                 static_cast<off_t>(written_ + done));
    if (count < 0 && errno != EINTR) {
      return errno_error("write " + spool_path_.string(), errno);
    }
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  first_in_ = read_ == written_ ? entry.seq : first_in_;
  last_in_ = entry.seq;
  written_ += record.size();
  return {};
}

Result<void> Outbox::read_exactly(std::uint64_t at, std::span<std::byte> out) const {
  while (!out.empty()) {
    YARD_TRY(const std::size_t got, read_at(spool_.get(), out, at));
    if (got == 0) {
      return Error{Code::kCorrupt, spool_path_.string() + " is shorter than what was written"};
    }
    at += got;
    out = out.subspan(got);
  }
  return {};
}

// A report that cannot be read is lost alone, as long as its head says where the next one is.
Result<void> Outbox::load() {
  while (read_ < written_ && bytes_ < limit_) {
    SpoolHead head;
    YARD_TRY(read_exactly(read_, std::as_writable_bytes(std::span(&head, 1))));
    Entry entry{.seq = head.seq, .text = std::string(head.length, '\0')};
    const Result<void> got =
        read_exactly(read_ + sizeof head, std::as_writable_bytes(std::span<char>(entry.text)));
    if (!got) {
      log_error("report " + std::to_string(head.seq) + " is lost: " + got.error().message);
      entry.text = nothing(head.seq);
    }
    read_ += sizeof head + head.length;
    first_in_ = head.seq + 1;
    wait(std::move(entry));
  }
  free_read();
  return {};
}

// A server that comes back after days takes long to hear everything. Where the file system cannot
// do this, the room comes back at the end.
void Outbox::free_read() {
  const std::uint64_t until = read_ / kHole * kHole;
  if (until > freed_ &&
      fallocate(spool_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(freed_), static_cast<off_t>(until - freed_)) == 0) {
    freed_ = until;
  }
}

// Without a number for each of them the server would wait for ever.
void Outbox::give_up_spool() {
  for (; first_in_ <= last_in_; ++first_in_) {
    wait({.seq = first_in_, .text = nothing(first_in_)});
  }
  read_ = written_;
}

void Outbox::finish_spool() {
  read_ = written_ = freed_ = 0;
  if (ftruncate(spool_.get(), 0) != 0) {
    log_warning(errno_error("empty " + spool_path_.string(), errno).message);
  }
  for (Entry& entry : behind_) {
    wait(std::move(entry));
  }
  behind_.clear();
}

}  // namespace trainyard::instance
