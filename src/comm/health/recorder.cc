// SPDX-License-Identifier: Apache-2.0
#include "comm/health/recorder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>

#include "base/fd.h"
#include "comm/health/names.h"
#include "comm/health/ticks.h"
#include "formats/json.h"

namespace trainyard::comm {
namespace {

constexpr std::uint64_t kMagic = 0x31636572'64726179;  // "yardrec1"
constexpr std::uint64_t kVersion = 1;

using Word = std::atomic<std::uint64_t>;

// One operation. Only one thread writes it at a time (the queue passes it on). Memory order: while
// it is rewritten its sequence is 0; every field is stored with release and loaded with acquire, so
// a reader that saw any new field also sees, in its second look at the sequence, the 0 or a later
// number, and drops what it read.
struct Entry {
  Word sequence;
  Word signature[2];
  Word bytes;
  Word issued;  // ticks
  Word started;
  Word ended;
  Word state;
};

void put(Word& word, std::uint64_t value) {
  word.store(value, std::memory_order_release);
}
std::uint64_t get(const Word& word) {
  return word.load(std::memory_order_acquire);
}

std::string_view name_of(OpState state) {
  switch (state) {
    case OpState::kIssued:
      return "issued";
    case OpState::kStarted:
      return "started";
    case OpState::kCompleted:
      return "completed";
    case OpState::kFailed:
      return "failed";
  }
  return "unknown";
}

std::int64_t steady_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

// Zero bytes are its valid first state, so a fresh mapping is one.
struct Recorder::Shared {
  Word magic;
  Word version;
  Word issued;
  Word started;
  Word completed;
  Word first_ticks;  // ticks and steady time at the start: with those of now they give the rate
  Word first_us;
  std::array<Entry, kCapacity> entries;

  Entry& of(std::uint64_t sequence) { return entries[sequence % kCapacity]; }
};

Result<std::unique_ptr<Recorder>> Recorder::create(const std::string& name, std::int32_t rank,
                                                   const Path* folder) {
  std::unique_ptr<Recorder> recorder(new Recorder(name, rank));
  if (folder != nullptr) {
    const std::string file = fmt::format("rank-{}.{}", rank, as_file_name(name));
    YARD_TRY(StatusFile made, StatusFile::make(*folder / file, sizeof(Shared)));
    recorder->file_.emplace(std::move(made));
  }
  const bool is_shared = recorder->file_.has_value();
  const int flags = is_shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, flags,
                      is_shared ? recorder->file_->fd() : -1, 0);
  if (memory == MAP_FAILED) {
    return errno_error("map the flight record", errno);
  }
  recorder->shared_ = {static_cast<Shared*>(memory),
                       [](Shared* shared) { munmap(shared, sizeof(Shared)); }};
  put(recorder->shared_->first_ticks, ticks_now());
  put(recorder->shared_->first_us, static_cast<std::uint64_t>(steady_us()));
  put(recorder->shared_->version, kVersion);
  put(recorder->shared_->magic, kMagic);
  return recorder;
}

Recorder::~Recorder() = default;

void Recorder::issued(std::uint64_t sequence, const Signature& signature, std::uint64_t bytes) {
  Entry& entry = shared_->of(sequence);
  std::uint64_t words[2];
  std::memcpy(words, &signature, sizeof(words));
  put(entry.sequence, 0);
  put(entry.signature[0], words[0]);
  put(entry.signature[1], words[1]);
  put(entry.bytes, bytes);
  put(entry.issued, ticks_now());
  put(entry.started, 0);
  put(entry.ended, 0);
  put(entry.state, static_cast<std::uint64_t>(OpState::kIssued));
  put(entry.sequence, sequence);
  put(shared_->issued, sequence);
}

void Recorder::started(std::uint64_t sequence) {
  Entry& entry = shared_->of(sequence);
  put(shared_->started, sequence);
  if (get(entry.sequence) == sequence) {  // else the ring has come round
    put(entry.started, ticks_now());
    put(entry.state, static_cast<std::uint64_t>(OpState::kStarted));
  }
}

void Recorder::ended(std::uint64_t sequence, bool is_complete) {
  Entry& entry = shared_->of(sequence);
  if (get(entry.sequence) == sequence) {
    put(entry.ended, ticks_now());
    put(entry.state,
        static_cast<std::uint64_t>(is_complete ? OpState::kCompleted : OpState::kFailed));
  }
  // Sends and receives end in any order, and what is performed elsewhere on any thread.
  std::uint64_t last = get(shared_->completed);
  while (is_complete && sequence > last &&
         !shared_->completed.compare_exchange_weak(last, sequence, std::memory_order_acq_rel,
                                                   std::memory_order_acquire)) {
  }
}

std::uint64_t Recorder::last_issued() const {
  return get(shared_->issued);
}
std::uint64_t Recorder::last_started() const {
  return get(shared_->started);
}
std::uint64_t Recorder::last_completed() const {
  return get(shared_->completed);
}

std::vector<RecordedOp> Recorder::snapshot() const {
  const auto first_ticks = static_cast<double>(get(shared_->first_ticks));
  const auto first_us = static_cast<std::int64_t>(get(shared_->first_us));
  const double passed_ticks = static_cast<double>(ticks_now()) - first_ticks;
  const auto passed_us = static_cast<double>(steady_us() - first_us);
  const double us_per_tick = passed_ticks > 0 ? passed_us / passed_ticks : 0;
  const auto to_us = [&](std::uint64_t ticks) {
    return ticks == 0 ? 0
                      : first_us + static_cast<std::int64_t>(
                                       (static_cast<double>(ticks) - first_ticks) * us_per_tick);
  };
  std::vector<RecordedOp> operations;
  for (const Entry& entry : shared_->entries) {
    const std::uint64_t sequence = get(entry.sequence);
    const std::uint64_t words[2] = {get(entry.signature[0]), get(entry.signature[1])};
    RecordedOp operation{.sequence = sequence,
                         .signature = {},
                         .state = static_cast<OpState>(get(entry.state)),
                         .bytes = get(entry.bytes),
                         .issued_us = to_us(get(entry.issued)),
                         .started_us = to_us(get(entry.started)),
                         .ended_us = to_us(get(entry.ended))};
    std::memcpy(&operation.signature, words, sizeof(words));
    if (sequence != 0 && get(entry.sequence) == sequence) {
      operations.push_back(operation);
    }
  }
  std::sort(operations.begin(), operations.end(),
            [](const RecordedOp& a, const RecordedOp& b) { return a.sequence < b.sequence; });
  return operations;
}

std::string Recorder::to_json_lines() const {
  std::string lines;
  const std::string name = dump_json(nlohmann::json(name_));
  for (const RecordedOp& op : snapshot()) {
    lines += fmt::format(
        R"({{"communicator":{},"rank":{},"sequence":{},"op":"{}","dtype":"{}","reduce":"{}",)"
        R"("count":{},"uneven":{},)"
        R"("root":{},"bytes":{},"state":"{}","issued_us":{},"started_us":{},"ended_us":{}}})"
        "\n",
        name, rank_, op.sequence, name_of(op.signature.kind), name_of(op.signature.dtype),
        name_of(op.signature.reduce), op.signature.count, (op.signature.flags & 1) != 0,
        op.signature.root, op.bytes, name_of(op.state), op.issued_us, op.started_us, op.ended_us);
  }
  return lines;
}

Result<Progress> read_progress(const Path& file) {
  YARD_TRY(const Fd fd, open_file(file, O_RDONLY | O_NOFOLLOW));
  std::uint64_t head[5] = {};
  YARD_TRY(const std::size_t got,
           read_at(fd.get(), std::as_writable_bytes(std::span<std::uint64_t>(head)), 0));
  if (got != sizeof(head) || head[0] != kMagic) {
    return Error{Code::kCorrupt, file.string() + " is no flight record"};
  }
  if (head[1] != kVersion) {
    return Error{Code::kCorrupt, fmt::format("{} is a flight record of version {}, not {}",
                                             file.string(), head[1], kVersion)};
  }
  return Progress{.issued = head[2], .started = head[3], .completed = head[4]};
}

}  // namespace trainyard::comm
