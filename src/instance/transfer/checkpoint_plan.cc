// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/checkpoint_plan.h"

#include <algorithm>
#include <utility>

namespace trainyard::instance {
namespace {

constexpr int kMostDoublings = 10;

Duration doubled(Duration first, int times, Duration most) {
  return std::min(first * (1 << std::min(times, kMostDoublings)), most);
}

void earliest(std::optional<SteadyTime>& wake, SteadyTime time) {
  wake = wake ? std::min(*wake, time) : time;
}

bool is_below(const std::string& path, const std::string& directory) {
  return directory.empty() || (path.size() > directory.size() && path.starts_with(directory) &&
                               path[directory.size()] == '/');
}

}  // namespace

MirrorPlan::MirrorPlan(MirrorTimes times, const StoredFiles& stored, SteadyTime now)
    : times_(times) {
  for (const auto& [path, file] : stored) {
    entries_[path] = {.local = file.state, .stored = file, .since = now, .changed = now};
  }
}

void MirrorPlan::make_dirty(const std::string& path, Entry& entry, SteadyTime now) {
  ++entry.version;
  entry.changed = now;
  if (!entry.is_dirty) {
    entry.is_dirty = true;
    entry.since = now;
    entry.restless = now;
    entry.refused.reset();
    entry.not_before = {};
    entry.failures = 0;
    entry.torn = 0;
    uploads_.emplace(now, path);
  }
}

// Called before a change is noted. A file that has lain still until then, with nobody known to
// write it, could have been read whole, had the store been there or faster: its unrest begins now.
void MirrorPlan::end_rest(Entry& entry, SteadyTime now) const {
  if (entry.writer != Writer::kOpen && now - entry.changed >= times_.patience) {
    entry.restless = now;
    entry.refused.reset();
    entry.torn = 0;
  }
}

void MirrorPlan::make_clean(const std::string& path, Entry& entry) {
  if (entry.is_dirty) {
    uploads_.erase({entry.since, path});
    entry.is_dirty = false;
    entry.is_held = false;
  }
}

void MirrorPlan::want_removal(const std::string& path, Entry& entry, SteadyTime now) {
  entry.since = now;
  entry.not_before = {};
  entry.failures = 0;
  removals_.emplace(now, path);
}

void MirrorPlan::forget_removal(const std::string& path, const Entry& entry) {
  removals_.erase({entry.since, path});
}

void MirrorPlan::saw(const std::string& path, const FileState& state, Writer writer,
                     SteadyTime now) {
  Entry& entry = entries_[path];
  const bool differs = entry.local != state;
  if (differs || writer == Writer::kClosed) {
    end_rest(entry, now);
  }
  if (!entry.local) {
    forget_removal(path, entry);
    entry.writer = writer;
  }
  entry.local = state;
  if (differs && entry.writer == Writer::kClosed) {
    entry.writer = Writer::kUnknown;  // someone has opened it again
  }
  if (writer != Writer::kUnknown) {
    entry.writer = writer;
  }
  if (writer == Writer::kClosed && std::exchange(entry.is_held, false)) {
    entry.not_before = now + times_.settle;  // however long it has been waiting
    entry.refused.reset();
  }
  if (differs || writer == Writer::kClosed) {
    make_dirty(path, entry, now);
  }
}

void MirrorPlan::gone(const std::string& path, SteadyTime now) {
  const auto found = entries_.find(path);
  if (found == entries_.end() || !found->second.local) {
    return;
  }
  Entry& entry = found->second;
  entry.local.reset();
  ++entry.version;
  make_clean(path, entry);
  if (entry.stored || entry.may_be_stored) {
    want_removal(path, entry, now);
  } else if (!entry.is_running) {
    entries_.erase(found);
  }
}

void MirrorPlan::gone_below(const std::string& directory, SteadyTime now) {
  std::vector<std::string> paths;
  for (auto it = entries_.lower_bound(directory.empty() ? "" : directory + "/");
       it != entries_.end() && is_below(it->first, directory); ++it) {
    paths.push_back(it->first);
  }
  for (const std::string& path : paths) {
    gone(path, now);
  }
}

void MirrorPlan::scanned(const TreeScan& scan, const std::string& below, Writer writer,
                         SteadyTime now) {
  for (const auto& [path, state] : scan.files) {
    const auto known = entries_.find(path);
    // A look from afar says nothing about a file that is as it was.
    if (known == entries_.end() || known->second.local != state) {
      saw(path, state, writer, now);
    }
  }
  if (!scan.is_whole) {
    return;
  }
  std::vector<std::string> absent;
  for (auto it = entries_.lower_bound(below.empty() ? "" : below + "/");
       it != entries_.end() && is_below(it->first, below); ++it) {
    if (it->second.local && !scan.files.contains(it->first)) {
      absent.push_back(it->first);
    }
  }
  for (const std::string& path : absent) {
    gone(path, now);
  }
}

SteadyTime MirrorPlan::ready_at(const Entry& entry, bool is_final) const {
  if (is_final) {
    return entry.not_before;
  }
  const Duration rest = entry.writer == Writer::kClosed    ? times_.settle
                        : entry.writer == Writer::kUnknown ? times_.quiet
                                                           : times_.open_quiet;
  const SteadyTime given_up =
      entry.restless + doubled(times_.patience, entry.torn, times_.force_after);
  return std::max(entry.not_before, std::min(entry.changed + rest, given_up));
}

// Whether a torn reading of it is better than none.
bool MirrorPlan::is_torn_fine(const Entry& entry, SteadyTime now) const {
  return entry.refused && now >= std::max(*entry.refused, store_failed_) + times_.force_after;
}

MirrorActions MirrorPlan::next(std::size_t slots, bool is_final, SteadyTime now) {
  MirrorActions actions;
  if (now < paused_until_) {
    actions.wake = paused_until_;
    return actions;
  }
  if (store_failures_ > 0) {
    slots = running_ == 0 ? std::min<std::size_t>(slots, 1) : 0;
    choose_probe(slots, is_final, now, actions);
  } else {
    choose_uploads(slots, is_final, now, actions);
  }
  choose_removals(slots, now, actions);
  return actions;
}

void MirrorPlan::choose_uploads(std::size_t& slots, bool is_final, SteadyTime now,
                                MirrorActions& actions) {
  for (const auto& [since, path] : uploads_) {
    if (slots == 0) {
      return;
    }
    Entry& entry = entries_.at(path);
    if (entry.is_running) {
      continue;
    }
    if (const SteadyTime ready = ready_at(entry, is_final); ready > now) {
      earliest(actions.wake, ready);
      continue;
    }
    --slots;
    actions.uploads.push_back(begin_upload(path, entry, is_final, now));
  }
}

// One upload that shows whether the store is well again. The one that has failed least, for it may
// be the file that makes the store fail.
void MirrorPlan::choose_probe(std::size_t& slots, bool is_final, SteadyTime now,
                              MirrorActions& actions) {
  const std::string* chosen = nullptr;
  for (const auto& [since, path] : uploads_) {
    const Entry& entry = entries_.at(path);
    if (entry.is_running) {
      continue;
    }
    if (const SteadyTime ready = ready_at(entry, is_final); ready > now) {
      earliest(actions.wake, ready);
    } else if (chosen == nullptr || entry.failures < entries_.at(*chosen).failures) {
      chosen = &path;
    }
  }
  if (slots > 0 && chosen != nullptr) {
    --slots;
    actions.uploads.push_back(begin_upload(*chosen, entries_.at(*chosen), is_final, now));
  }
}

Upload MirrorPlan::begin_upload(const std::string& path, Entry& entry, bool is_final,
                                SteadyTime now) {
  entry.is_running = true;
  ++running_;
  return {.path = path,
          .version = entry.version,
          .has_object = entry.stored || entry.may_be_stored,
          .writer = entry.writer,
          .sent = entry.sent,
          .torn_is_fine = is_torn_fine(entry, now),
          .is_final = is_final};
}

void MirrorPlan::choose_removals(std::size_t& slots, SteadyTime now, MirrorActions& actions) {
  for (const auto& [since, path] : removals_) {
    if (slots == 0 || (!uploads_.empty() && uploads_.begin()->first <= since)) {
      return;
    }
    Entry& entry = entries_.at(path);
    if (entry.is_running) {
      continue;
    }
    if (entry.not_before > now) {
      earliest(actions.wake, entry.not_before);
      continue;
    }
    entry.is_running = true;
    ++running_;
    --slots;
    const bool is_ours = entry.stored && !entry.may_be_stored;
    actions.removals.push_back(
        {.path = path, .etag = is_ours ? entry.stored->etag : std::string()});
  }
}

void MirrorPlan::store_failed(Entry& entry, SteadyTime now) {
  entry.not_before = now + doubled(times_.first_retry, entry.failures++, times_.last_retry);
  paused_until_ = now + doubled(times_.first_retry, store_failures_++, times_.last_retry);
  store_failed_ = now;
}

void MirrorPlan::uploaded(const Upload& upload, const TransferEnd& end, SteadyTime now) {
  Entry& entry = entries_.at(upload.path);
  entry.is_running = false;
  --running_;
  const bool is_same = entry.version == upload.version;
  switch (end.kind) {
    case TransferEnd::Kind::kDone:
      finish_upload(upload, entry, end, now);
      break;
    case TransferEnd::Kind::kTorn:
      if (is_same) {  // or else the change was noted when it was seen
        end_rest(entry, now);
        entry.changed = now;
      }
      ++entry.torn;
      entry.refused = entry.refused.value_or(now);
      break;
    case TransferEnd::Kind::kHeldOpen:
      held_open(upload, entry, now);
      break;
    case TransferEnd::Kind::kGone:
      if (is_same) {
        return gone(upload.path, now);
      }
      break;
    case TransferEnd::Kind::kRefused:
      if (is_same) {
        make_clean(upload.path, entry);
      }
      break;
    case TransferEnd::Kind::kStoreFailed:
      entry.may_be_stored = true;
      store_failed(entry, now);
      break;
    case TransferEnd::Kind::kFileFailed:
      entry.may_be_stored = true;
      entry.not_before = now + doubled(times_.first_retry, entry.failures++, times_.last_retry);
      entry.refused.reset();
      break;
  }
  settle_absent(upload.path, now);
}

void MirrorPlan::held_open(const Upload& upload, Entry& entry, SteadyTime now) {
  if (entry.version != upload.version && entry.writer == Writer::kClosed) {
    return;  // it was closed meanwhile
  }
  if (upload.is_final) {
    return make_clean(upload.path, entry);
  }
  entry.is_held = true;
  entry.writer = Writer::kOpen;
  entry.refused = entry.refused.value_or(now);
  entry.not_before = now + times_.quiet;  // should nobody say that it was closed
}

// The object is there. The file may have changed or gone since it was read.
void MirrorPlan::finish_upload(const Upload& upload, Entry& entry, const TransferEnd& end,
                               SteadyTime now) {
  const bool is_same = entry.version == upload.version;
  store_failures_ = 0;
  entry.stored = end.stored;
  entry.sent = SentPart{.size = end.stored.state.size, .checksum = end.checksum};
  entry.is_held = false;
  entry.refused.reset();
  entry.may_be_stored = false;
  entry.failures = 0;
  entry.torn = 0;
  if (is_same) {
    entry.local = end.stored.state;
    entry.changed = now;
    make_clean(upload.path, entry);
  }
  if (is_same && !end.is_settled && !upload.is_final) {
    make_dirty(upload.path, entry, now);
  } else if (entry.is_dirty) {
    // The rest has been waiting only since it changed.
    uploads_.erase({entry.since, upload.path});
    entry.since = entry.restless = entry.changed;
    uploads_.emplace(entry.since, upload.path);
  }
}

// What went while it was on its way: its object goes too, or there is nothing left to know.
void MirrorPlan::settle_absent(const std::string& path, SteadyTime now) {
  const auto found = entries_.find(path);
  if (found == entries_.end() || found->second.local) {
    return;
  }
  Entry& entry = found->second;
  if (!entry.stored && !entry.may_be_stored) {
    forget_removal(path, entry);
    entries_.erase(found);
  } else if (!removals_.contains({entry.since, path})) {
    want_removal(path, entry, now);
  }
}

void MirrorPlan::removed(const Removal& removal, const TransferEnd& end, SteadyTime now) {
  Entry& entry = entries_.at(removal.path);
  entry.is_running = false;
  --running_;
  switch (end.kind) {
    case TransferEnd::Kind::kGone:
      saw(removal.path, end.stored.state, Writer::kUnknown, now);
      return;
    case TransferEnd::Kind::kStoreFailed:
      return store_failed(entry, now);
    case TransferEnd::Kind::kFileFailed:
      entry.not_before = now + doubled(times_.first_retry, entry.failures++, times_.last_retry);
      return;
    default:
      store_failures_ = 0;
      entry.stored.reset();
      entry.sent.reset();
      entry.may_be_stored = false;
      settle_absent(removal.path, now);
  }
}

bool MirrorPlan::is_outdated(const Upload& upload) const {
  const auto found = entries_.find(upload.path);
  return found == entries_.end() || !found->second.local ||
         (found->second.version != upload.version && !upload.torn_is_fine);
}

MirrorLag MirrorPlan::lag(SteadyTime now, bool is_final) const {
  MirrorLag lag;
  std::optional<SteadyTime> oldest;
  std::optional<SteadyTime> held;
  for (const auto& [since, path] : uploads_) {
    const Entry& entry = entries_.at(path);
    if (entry.is_held && !is_final) {
      earliest(held, since);
      continue;
    }
    ++lag.files;
    lag.bytes += entry.local.value_or(FileState()).size;
    earliest(oldest, since);
  }
  for (const auto& [since, path] : removals_) {
    if (held && *held <= since) {
      break;
    }
    ++lag.removals;
    earliest(oldest, since);
  }
  if (oldest) {
    lag.oldest = std::chrono::duration_cast<Duration>(now - *oldest);
  }
  return lag;
}

std::set<std::string> MirrorPlan::replacing() const {
  std::set<std::string> paths;
  for (const auto& [since, path] : uploads_) {
    if (const Entry& entry = entries_.at(path); entry.stored || entry.may_be_stored) {
      paths.insert(path);
    }
  }
  return paths;
}

std::set<std::string> MirrorPlan::closed_lately(const std::set<std::string>& paths,
                                                SteadyTime now) const {
  std::set<std::string> found;
  for (const std::string& path : paths) {
    const Entry& entry = entries_.at(path);
    const bool is_closed = entry.writer == Writer::kClosed && !entry.is_held;
    if (!is_closed || now - entry.changed <= times_.kill_window) {
      found.insert(path);
    }
  }
  return found;
}

void MirrorPlan::torn_by_kill(const std::set<std::string>& paths) {
  for (const std::string& path : paths) {
    Entry& entry = entries_.at(path);
    ++entry.version;  // what of it is under way has become pointless
    make_clean(path, entry);
  }
}

std::vector<std::string> MirrorPlan::missing(std::size_t most) const {
  std::vector<std::string> paths;
  for (auto it = uploads_.begin(); it != uploads_.end() && paths.size() < most; ++it) {
    paths.push_back(it->second);
  }
  return paths;
}

StoredFiles MirrorPlan::stored() const {
  StoredFiles files;
  for (const auto& [path, entry] : entries_) {
    if (entry.stored && !entry.is_dirty && !entry.may_be_stored &&
        entry.local == entry.stored->state) {
      files.emplace(path, *entry.stored);
    }
  }
  return files;
}

}  // namespace trainyard::instance
