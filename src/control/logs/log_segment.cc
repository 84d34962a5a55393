// SPDX-License-Identifier: Apache-2.0
#include "control/logs/log_segment.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/hash.h"

namespace trainyard::control {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is written as memory lies");

constexpr std::string_view kSegmentMagic = "YARDLOG1";
constexpr std::string_view kIndexMagic = "YARDIDX1";
constexpr std::size_t kIndexHeader = 16;
constexpr std::size_t kScanChunk = std::size_t{1} << 20;

template <typename T>
void put(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

template <typename T>
T get(std::string_view bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

void put_time(std::string& out, WallTime time) {
  put<std::int64_t>(out, time.time_since_epoch().count());
}

WallTime get_time(std::string_view bytes, std::size_t at) {
  return WallTime{Duration{get<std::int64_t>(bytes, at)}};
}

std::uint32_t checksum(std::string_view bytes) {
  return crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

struct RecordView {
  std::size_t size = 0;
  WallTime at{};
  WallTime ingested{};
  std::string_view text;
};

enum class Parse { kRecord, kNeedMore, kBroken };

Parse parse_record(std::string_view bytes, RecordView& out) {
  if (bytes.size() < kRecordHeader) {
    return Parse::kNeedMore;
  }
  const std::size_t length = get<std::uint32_t>(bytes, 0);
  if (length > kMaxLogText) {
    return Parse::kBroken;
  }
  if (bytes.size() < kRecordHeader + length) {
    return Parse::kNeedMore;
  }
  out = {.size = kRecordHeader + length,
         .at = get_time(bytes, 8),
         .ingested = get_time(bytes, 16),
         .text = bytes.substr(kRecordHeader, length)};
  const bool intact = checksum(bytes.substr(8, 16 + length)) == get<std::uint32_t>(bytes, 4);
  return intact ? Parse::kRecord : Parse::kBroken;
}

// The bytes of a file from a place on that moves forward.
class Window {
 public:
  explicit Window(int fd) : fd_(fd) {}

  std::string_view bytes() const { return std::string_view(buffer_).substr(at_); }
  void skip(std::size_t count) { at_ += count; }

  // False at the end of the file.
  Result<bool> grow() {
    if (is_at_end_) {
      return false;
    }
    buffer_.erase(0, std::exchange(at_, 0));
    const std::size_t had = buffer_.size();
    buffer_.resize(had + kScanChunk);
    YARD_TRY(const std::size_t got,
             read_at(fd_, std::as_writable_bytes(std::span(buffer_)).subspan(had), read_to_));
    buffer_.resize(had + got);
    read_to_ += got;
    is_at_end_ = got == 0;
    return !is_at_end_;
  }

 private:
  int fd_;
  std::string buffer_;
  std::size_t at_ = 0;
  std::uint64_t read_to_ = 0;
  bool is_at_end_ = false;
};

bool is_intact_header(std::string_view bytes) {
  return bytes.size() >= kSegmentHeader && bytes.starts_with(kSegmentMagic) &&
         checksum(bytes.substr(0, 24)) == get<std::uint32_t>(bytes, 24);
}

std::uint64_t most_records_in(std::uint64_t bytes) {
  return std::max<std::uint64_t>(1, bytes / kRecordHeader);
}

StoredEvent note_of(std::uint64_t bytes, std::uint64_t offset, const BlockPlace& place) {
  return {.position = 0,
          .at = {},
          .ingested = {},
          .text = fmt::format("[trainyard] {} bytes are damaged in {} at {}: what was printed "
                              "here cannot be shown",
                              bytes, place.file, offset)};
}

// Those before the first note count from the first position, those behind the last one towards the
// end; in between each note stands for one record.
void number(std::vector<StoredEvent>& events, const std::vector<std::size_t>& notes,
            const BlockPlace& place) {
  const std::uint64_t room = place.end_position - place.first_position;
  const std::uint64_t lost = room > events.size() ? room - events.size() : 0;
  std::uint64_t position = place.first_position;
  for (std::size_t i = 0; i < events.size(); ++i) {
    events[i].position = position;
    position += 1 + (!notes.empty() && i == notes[0] ? lost : 0);
  }
  for (const std::size_t note : notes) {
    const std::size_t neighbour = note > 0 ? note - 1 : std::min(note + 1, events.size() - 1);
    events[note].at = events[neighbour].at;
    events[note].ingested = events[neighbour].ingested;
  }
}

}  // namespace

void SegmentIndex::add(std::size_t record_bytes, WallTime at, WallTime ingested) {
  if (blocks.empty()) {
    summary.first_at = at;
    summary.min_at = at;
    summary.max_at = at;
    blocks.push_back({.first_position = summary.first_position,
                      .offset = kSegmentHeader,
                      .min_at = at,
                      .max_at = at});
  } else if (summary.end_offset - blocks.back().offset >= kBlockBytes) {
    blocks.push_back({.first_position = summary.end_position,
                      .offset = summary.end_offset,
                      .min_at = at,
                      .max_at = at});
  }
  LogBlock& block = blocks.back();
  block.min_at = std::min(block.min_at, at);
  block.max_at = std::max(block.max_at, at);
  summary.min_at = std::min(summary.min_at, at);
  summary.max_at = std::max(summary.max_at, at);
  summary.last_at = at;
  summary.last_ingested = ingested;
  summary.end_position += 1;
  summary.end_offset += record_bytes;
}

void SegmentIndex::add_damage(std::uint64_t bytes) {
  summary.end_position += most_records_in(bytes);
  summary.end_offset += bytes;
}

std::size_t SegmentIndex::block_of(std::uint64_t position) const {
  const auto after = std::upper_bound(
      blocks.begin(), blocks.end(), position,
      [](std::uint64_t wanted, const LogBlock& block) { return wanted < block.first_position; });
  return static_cast<std::size_t>(after - blocks.begin()) - 1;
}

std::uint64_t SegmentIndex::end_position_of(std::size_t block) const {
  return block + 1 < blocks.size() ? blocks[block + 1].first_position : summary.end_position;
}

std::uint64_t SegmentIndex::end_offset_of(std::size_t block) const {
  return block + 1 < blocks.size() ? blocks[block + 1].offset : summary.end_offset;
}

std::string encode_segment_header(std::uint64_t first_position, WallTime created) {
  std::string out(kSegmentMagic);
  put<std::uint64_t>(out, first_position);
  put_time(out, created);
  put<std::uint32_t>(out, checksum(out));
  put<std::uint32_t>(out, 0);
  return out;
}

void append_record(std::string& out, const LogEvent& event, WallTime ingested) {
  const std::size_t start = out.size();
  put<std::uint32_t>(out, static_cast<std::uint32_t>(event.text.size()));
  put<std::uint32_t>(out, 0);
  put_time(out, event.at);
  put_time(out, ingested);
  out += event.text;
  const std::uint32_t sum = checksum(std::string_view(out).substr(start + 8));
  std::memcpy(out.data() + start + 4, &sum, sizeof(sum));
}

DecodedBlock decode_block(std::string_view bytes, const BlockPlace& place) {
  DecodedBlock out;
  std::vector<std::size_t> notes;
  std::uint64_t at = 0;
  std::uint64_t damaged = 0;  // since the last record
  const auto end_damage = [&] {
    if (damaged > 0) {
      notes.push_back(out.events.size());
      out.events.push_back(note_of(damaged, place.offset + at - damaged, place));
      out.damaged_bytes += std::exchange(damaged, 0);
    }
  };
  RecordView record;
  while (at < bytes.size()) {
    if (parse_record(bytes.substr(at), record) != Parse::kRecord) {
      ++at;
      ++damaged;
      continue;
    }
    end_damage();
    out.events.push_back({.position = 0,
                          .at = record.at,
                          .ingested = record.ingested,
                          .text = std::string(record.text)});
    at += record.size;
  }
  damaged += place.bytes - at;
  at = place.bytes;
  end_damage();
  number(out.events, notes, place);
  return out;
}

Result<ScannedSegment> scan_segment(int fd, std::uint64_t first_position) {
  ScannedSegment out;
  SegmentSummary& summary = out.index.summary;
  summary.first_position = first_position;
  summary.end_position = first_position;
  Window window(fd);
  YARD_TRY(window.grow());
  if (is_intact_header(window.bytes())) {
    summary.created = get_time(window.bytes(), 16);
  } else {
    out.damaged_bytes = kSegmentHeader;
  }
  window.skip(std::min(kSegmentHeader, window.bytes().size()));
  std::uint64_t damaged = 0;  // since the last record
  while (true) {
    RecordView record;
    const Parse parsed = parse_record(window.bytes(), record);
    if (parsed == Parse::kNeedMore) {
      YARD_TRY(const bool has_more, window.grow());
      if (has_more) {
        continue;
      }
      if (window.bytes().empty()) {
        break;
      }
    }
    if (parsed != Parse::kRecord) {
      window.skip(1);
      ++damaged;
      continue;
    }
    if (damaged > 0) {
      out.index.add_damage(damaged);
      out.damaged_bytes += std::exchange(damaged, 0);
    }
    if (summary.created == WallTime{}) {
      summary.created = record.ingested;
    }
    out.index.add(record.size, record.at, record.ingested);
    window.skip(record.size);
  }
  return out;
}

std::string encode_index(const SegmentIndex& index) {
  const SegmentSummary& summary = index.summary;
  std::string body;
  put<std::uint32_t>(body, static_cast<std::uint32_t>(index.blocks.size()));
  put(body, summary.first_position);
  put(body, summary.end_position);
  put(body, summary.end_offset);
  for (const WallTime time : {summary.created, summary.first_at, summary.last_at,
                              summary.last_ingested, summary.min_at, summary.max_at}) {
    put_time(body, time);
  }
  for (const LogBlock& block : index.blocks) {
    put(body, block.first_position);
    put(body, block.offset);
    put_time(body, block.min_at);
    put_time(body, block.max_at);
  }
  std::string out(kIndexMagic);
  put<std::uint32_t>(out, checksum(body));
  return out + body;
}

Result<SegmentIndex> decode_index(std::string_view bytes) {
  constexpr std::size_t kBlocksAt = kIndexHeader + std::size_t{9} * 8;
  if (bytes.size() < kBlocksAt || !bytes.starts_with(kIndexMagic) ||
      checksum(bytes.substr(12)) != get<std::uint32_t>(bytes, 8)) {
    return Error{Code::kCorrupt, "not an index of a log segment"};
  }
  const std::size_t count = get<std::uint32_t>(bytes, 12);
  if (bytes.size() != kBlocksAt + count * 32) {
    return Error{Code::kCorrupt, "the index of a log segment has the wrong length"};
  }
  SegmentIndex index;
  index.summary = {.first_position = get<std::uint64_t>(bytes, kIndexHeader),
                   .end_position = get<std::uint64_t>(bytes, kIndexHeader + 8),
                   .end_offset = get<std::uint64_t>(bytes, kIndexHeader + 16),
                   .created = get_time(bytes, kIndexHeader + 24),
                   .first_at = get_time(bytes, kIndexHeader + 32),
                   .last_at = get_time(bytes, kIndexHeader + 40),
                   .last_ingested = get_time(bytes, kIndexHeader + 48),
                   .min_at = get_time(bytes, kIndexHeader + 56),
                   .max_at = get_time(bytes, kIndexHeader + 64)};
  index.blocks.reserve(count);
  for (std::size_t at = kBlocksAt; at < bytes.size(); at += 32) {
    index.blocks.push_back({.first_position = get<std::uint64_t>(bytes, at),
                            .offset = get<std::uint64_t>(bytes, at + 8),
                            .min_at = get_time(bytes, at + 16),
                            .max_at = get_time(bytes, at + 24)});
  }
  return index;
}

}  // namespace trainyard::control
