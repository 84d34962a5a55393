// SPDX-License-Identifier: Apache-2.0
// Reports that wait for the server's acknowledgement, oldest first. Memory is bounded: what does
// not fit goes to a file and comes back from there in order, so that a job whose server is away for
// hours keeps its log. One owner; reporter.cc locks. The file is no journal: it has no name once it
// is open, and dies with the outbox, as the job does with the supervisor.
//
//   oldest   waiting_ ◄── the spool ◄── behind_   newest
//
// behind_ has what must be kept and could not be spooled behind what is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <span>
#include <string>

#include "base/fd.h"
#include "base/file.h"
#include "base/result.h"

namespace trainyard::instance {

// How far a spool may grow for log lines and points of metrics: its disk is also that of
// checkpoints and of the server. Facts, which are small and few, go beyond.
struct SpoolBounds {
  std::uint64_t bytes = std::uint64_t{4} << 30;
  // Left on its file system; a tenth of that where it is less.
  std::uint64_t spare = std::uint64_t{16} << 30;
};

// Pure. `taken`: what the spool occupies.
bool may_grow(std::uint64_t taken, const std::filesystem::space_info& disk,
              const SpoolBounds& bounds);

class Outbox {
 public:
  // `spool` is made when it is needed. `limit` is in bytes of report text.
  Outbox(Path spool, std::size_t limit, const SpoolBounds& bounds = {})
      : spool_path_(std::move(spool)), limit_(limit), bounds_(bounds) {}

  // `text` is one report as JSON without line breaks. Sequence numbers rise by one: the server
  // takes none after a gap. False when neither memory nor disk takes it (SpoolBounds): lost, its
  // number is free. `must_keep` reports (all but log lines and points) are always taken. One that
  // the disk has lost afterwards comes back as a report that says nothing.
  bool push(std::int64_t seq, std::string text, bool must_keep);

  bool is_empty() const { return waiting_.empty(); }
  // The oldest reports as a JSON list of about `bytes`, at least one; "[]" when there is none.
  std::string batch(std::size_t bytes) const;
  // Forgets everything up to and with `seq`. False when nothing of that was here.
  bool acknowledge(std::int64_t seq);

 private:
  struct Entry {
    std::int64_t seq = 0;
    std::string text;
  };

  void wait(Entry entry);
  bool may_spool_lines() const;
  Result<void> spool_behind();
  Result<void> spool(const Entry& entry);
  Result<void> load();
  Result<void> read_exactly(std::uint64_t at, std::span<std::byte> out) const;
  void free_read();
  void give_up_spool();
  void finish_spool();

  Path spool_path_;
  std::size_t limit_;
  SpoolBounds bounds_;
  std::deque<Entry> waiting_;
  std::size_t bytes_ = 0;  // of waiting_
  Fd spool_;
  std::uint64_t written_ = 0;  // end of the spool
  std::uint64_t read_ = 0;     // what has come back from it
  std::uint64_t freed_ = 0;    // of that what the disk has back
  std::int64_t first_in_ = 0;  // of the reports in the spool that have not come back
  std::int64_t last_in_ = 0;
  std::deque<Entry> behind_;  // empty unless something is in the spool
};

}  // namespace trainyard::instance
