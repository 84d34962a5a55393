// SPDX-License-Identifier: Apache-2.0
// Decides what the mirror of a checkpoint directory does next, from what was seen of the files and
// what is known to be in S3. Pure: time comes in, checkpoint_mirror.h looks and transfers. The
// rules:
//   - a file is sent when it was closed or renamed and has settled, or else when it has been quiet
//     for longer; one that never rests is sent now and then all the same
//   - what changes after it was read is sent again
//   - a file that is open for writing replaces no object unless it has only grown; it waits for the
//     close, but not for ever: the time counts from when it was first tried in vain, and only while
//     the store is well, for that the store was away says nothing about the file
//   - what was open when its writer was killed replaces no object at all
//   - a file that has gone is removed from S3, but only if this host has put or restored it, and
//     never before everything that had changed earlier is in S3: a new checkpoint arrives before
//     the old one goes
//   - after an error of the store everything waits, longer each time, then one transfer tries
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "instance/transfer/checkpoint_tree.h"

namespace trainyard::instance {

// What this host knows to be in S3: the object, and the local content that it is.
struct StoredFile {
  std::string etag;
  FileState state;

  bool operator==(const StoredFile&) const = default;
};
using StoredFiles = std::map<std::string, StoredFile>;  // by path below the directory

// Whether someone may still be writing.
enum class Writer { kClosed, kUnknown, kOpen };

struct MirrorTimes {
  Duration settle{250};           // after a close: temporary names are renamed by then
  Duration quiet{2'000};          // when nobody said that it was closed
  Duration open_quiet{10'000};    // when it is known to be open
  Duration patience{10'000};      // of a file that never rests; doubled for each torn reading
  Duration force_after{300'000};  // then a torn reading is better than none
  Duration kill_window{250};      // closed so shortly before a kill is closed by it; <= settle
  Duration first_retry{500};
  Duration last_retry{15'000};
};

// What of a file was sent last.
struct SentPart {
  std::uint64_t size = 0;
  std::uint32_t checksum = 0;  // CRC-32C
};

struct Upload {
  std::string path;
  std::uint64_t version = 0;  // to be handed back to uploaded()
  bool has_object = false;    // it would replace one
  Writer writer = Writer::kUnknown;
  std::optional<SentPart> sent = {};
  bool torn_is_fine = false;
  bool is_final = false;  // nobody writes any more
};

struct Removal {
  std::string path;
  std::string etag;  // remove only this; empty: whatever is there
};

struct MirrorActions {
  std::vector<Upload> uploads = {};
  std::vector<Removal> removals = {};
  std::optional<SteadyTime> wake = {};  // when to ask again, if nothing happens before
};

struct TransferEnd {
  enum class Kind {
    kDone,
    kTorn,         // the file changed while it was read: nothing was stored
    kHeldOpen,     // a program may be writing it: nothing was stored
    kGone,         // the file is not there any more; of a removal: it is there again
    kRefused,      // it cannot be an object
    kStoreFailed,  // the store does not answer, or not as it should
    kFileFailed,   // this file's own trouble
  };
  Kind kind = Kind::kDone;
  StoredFile stored = {};  // of an upload that is kDone
  std::uint32_t checksum = 0;
  bool is_settled = true;   // no change can hide behind the resolution of file times
  bool was_forced = false;  // it was open for writing, and sent all the same
};

struct MirrorLag {
  std::size_t files = 0;  // that are to be sent
  std::uint64_t bytes = 0;
  std::size_t removals = 0;
  Duration oldest{0};  // how long the oldest change waits
};

class MirrorPlan {
 public:
  MirrorPlan(MirrorTimes times, const StoredFiles& stored, SteadyTime now);

  // What was seen. kClosed says that a writer has closed the file: even an unchanged size and time
  // may then hide new bytes.
  void saw(const std::string& path, const FileState& state, Writer writer, SteadyTime now);
  void gone(const std::string& path, SteadyTime now);
  void gone_below(const std::string& directory, SteadyTime now);
  // The whole tree, or what is below one of its directories.
  void scanned(const TreeScan& scan, const std::string& below, Writer writer, SteadyTime now);

  // Paths that are to be sent and would replace an object.
  std::set<std::string> replacing() const;
  // Their writer was killed while it wrote: they are not sent unless they change once more.
  void torn_by_kill(const std::set<std::string>& paths);
  // Of `paths`, those that were closed in the last moments, or wait to be.
  std::set<std::string> closed_lately(const std::set<std::string>& paths, SteadyTime now) const;

  // At most `slots` transfers, which count as running until uploaded() or removed() says how they
  // ended. `is_final`: nobody writes any more.
  MirrorActions next(std::size_t slots, bool is_final, SteadyTime now);
  void uploaded(const Upload& upload, const TransferEnd& end, SteadyTime now);
  void removed(const Removal& removal, const TransferEnd& end, SteadyTime now);

  bool is_idle() const { return uploads_.empty() && removals_.empty() && running_ == 0; }
  // Whether an upload of this path has become pointless.
  bool is_outdated(const Upload& upload) const;
  // Files that wait for their writer, and removals that wait for these, are late only when
  // `is_final`.
  MirrorLag lag(SteadyTime now, bool is_final = false) const;
  std::vector<std::string> missing(std::size_t most) const;  // paths that are to be sent
  StoredFiles stored() const;

 private:
  struct Entry {
    std::optional<FileState> local = {};
    std::optional<StoredFile> stored = {};
    bool may_be_stored = false;  // an upload has ended without an answer
    bool is_dirty = false;       // in uploads_
    bool is_running = false;
    bool is_held = false;  // waits for its writer to close it
    std::optional<SentPart> sent = {};
    Writer writer = Writer::kUnknown;
    std::uint64_t version = 0;
    SteadyTime since = {};  // of its place in uploads_ or removals_
    SteadyTime changed = {};
    SteadyTime restless = {};                // since when it has not rested
    std::optional<SteadyTime> refused = {};  // since when no reading of it was whole
    SteadyTime not_before = {};
    int failures = 0;
    int torn = 0;
  };
  using Queue = std::set<std::pair<SteadyTime, std::string>>;

  void make_dirty(const std::string& path, Entry& entry, SteadyTime now);
  void end_rest(Entry& entry, SteadyTime now) const;
  void make_clean(const std::string& path, Entry& entry);
  void want_removal(const std::string& path, Entry& entry, SteadyTime now);
  void forget_removal(const std::string& path, const Entry& entry);
  void store_failed(Entry& entry, SteadyTime now);
  void held_open(const Upload& upload, Entry& entry, SteadyTime now);
  void finish_upload(const Upload& upload, Entry& entry, const TransferEnd& end, SteadyTime now);
  void settle_absent(const std::string& path, SteadyTime now);
  SteadyTime ready_at(const Entry& entry, bool is_final) const;
  bool is_torn_fine(const Entry& entry, SteadyTime now) const;
  void choose_uploads(std::size_t& slots, bool is_final, SteadyTime now, MirrorActions& actions);
  void choose_probe(std::size_t& slots, bool is_final, SteadyTime now, MirrorActions& actions);
  Upload begin_upload(const std::string& path, Entry& entry, bool is_final, SteadyTime now);
  void choose_removals(std::size_t& slots, SteadyTime now, MirrorActions& actions);

  MirrorTimes times_;
  std::map<std::string, Entry> entries_;
  Queue uploads_;   // oldest change first
  Queue removals_;  // oldest first
  std::size_t running_ = 0;
  int store_failures_ = 0;        // in a row
  SteadyTime store_failed_ = {};  // the last time
  SteadyTime paused_until_ = {};
};

}  // namespace trainyard::instance
