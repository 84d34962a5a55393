// SPDX-License-Identifier: Apache-2.0
// The byte format of one segment of a log stream, and its sparse index. A segment is a header and
// then records, each with its own checksum, so that after a crash the intact part can be told from
// a torn tail, and the way back is found behind damage in the middle. The index cuts the segment
// into blocks of about 16 KiB and knows the times of each: reading a page costs a few blocks,
// however long the stream is. log_stream.h writes and reads segments; nobody else knows the format.
// All integers are little-endian.
//
//   header, 32 bytes   "YARDLOG1" | first position u64 | created ms i64 | crc32c u32 | 0 u32
//   record             text length u32 | crc32c u32 | event time ms i64 | ingestion ms i64 | text
//                      (a record's checksum covers everything after itself)
//   index file         "YARDIDX1" | crc32c u32 | block count u32 | summary 9 x 8 bytes | blocks 4 x
//   8
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/result.h"

namespace trainyard::control {

inline constexpr std::size_t kSegmentHeader = 32;
inline constexpr std::size_t kRecordHeader = 24;
inline constexpr std::size_t kBlockBytes = std::size_t{16} << 10;
inline constexpr std::size_t kMaxLogText = std::size_t{8} << 20;  // bytes of one event

// One line as it comes in. `text` is valid UTF-8 without a line end.
struct LogEvent {
  WallTime at{};
  std::string text;
};

// One line as it is read back. `position` counts the events of a stream from 0.
struct StoredEvent {
  std::uint64_t position = 0;
  WallTime at{};
  WallTime ingested{};
  std::string text;
};

struct LogBlock {
  std::uint64_t first_position = 0;
  std::uint64_t offset = 0;  // in the segment file
  WallTime min_at{};
  WallTime max_at{};
};

// What is known of a segment without reading it. The times mean nothing while it is empty.
struct SegmentSummary {
  std::uint64_t first_position = 0;
  std::uint64_t end_position = 0;  // one past the last event
  std::uint64_t end_offset = kSegmentHeader;
  WallTime created{};
  WallTime first_at{};
  WallTime last_at{};
  WallTime last_ingested{};
  WallTime min_at{};
  WallTime max_at{};

  bool is_empty() const { return first_position == end_position; }
};

struct SegmentIndex {
  SegmentSummary summary;
  std::vector<LogBlock> blocks;

  // Counts one more record at the end.
  void add(std::size_t record_bytes, WallTime at, WallTime ingested);
  // Counts bytes that hold no whole record, as many positions as they may have had records: a
  // reader who goes on behind them may see a line twice, but misses none.
  void add_damage(std::uint64_t bytes);
  // The block that holds `position`, which must be in the segment, and where that block ends.
  std::size_t block_of(std::uint64_t position) const;
  std::uint64_t end_position_of(std::size_t block) const;
  std::uint64_t end_offset_of(std::size_t block) const;
};

std::string encode_segment_header(std::uint64_t first_position, WallTime created);
void append_record(std::string& out, const LogEvent& event, WallTime ingested);

// One block as a reader gets it. Bytes that are no record are skipped up to the next one that is
// intact; an event in their place says so.
struct DecodedBlock {
  std::vector<StoredEvent> events;
  std::uint64_t damaged_bytes = 0;
};
struct BlockPlace {
  std::uint64_t first_position = 0;
  std::uint64_t end_position = 0;
  std::uint64_t offset = 0;  // of the block in its file
  std::uint64_t bytes = 0;   // that it should have
  std::string file;          // for people
};
DecodedBlock decode_block(std::string_view bytes, const BlockPlace& place);

// Reads a whole segment, whose name says its first position, and gives the index of what is intact
// in it: summary.end_offset is where the last intact record ends. What lies behind it is torn.
struct ScannedSegment {
  SegmentIndex index;
  std::uint64_t damaged_bytes = 0;  // before the last intact record
};
Result<ScannedSegment> scan_segment(int fd, std::uint64_t first_position);

std::string encode_index(const SegmentIndex& index);
Result<SegmentIndex> decode_index(std::string_view bytes);  // kCorrupt

}  // namespace trainyard::control
