// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/checkpoint_mirror.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "instance/transfer/checkpoint_restore.h"

namespace trainyard::instance {
namespace {

constexpr Duration kLongestWait{1'000};
// A tree is looked at for at most this share of the time.
constexpr int kLookShare = 50;
constexpr std::size_t kNamedMissing = 10;
// Of a stop for the look that finds what is being written: a stopped program waits so much longer.
constexpr Duration kLongestStop{3'000};

}  // namespace

Result<std::unique_ptr<CheckpointMirror>> CheckpointMirror::start(MirrorParts parts,
                                                                  const StoredFiles& stored) {
  Fd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.is_open()) {
    return errno_error("eventfd", errno);
  }
  std::unique_ptr<CheckpointMirror> mirror(
      new CheckpointMirror(std::move(parts), stored, std::move(wake)));
  mirror->thread_ =
      start_thread("mirror", [mirror = mirror.get()](const std::stop_token&) { mirror->run(); });
  return mirror;
}

CheckpointMirror::CheckpointMirror(MirrorParts parts, const StoredFiles& stored, Fd wake)
    : parts_(std::move(parts)),
      tree_(parts_.place),
      wake_(std::move(wake)),
      plan_(parts_.options.times, stored, parts_.clock.steady_now()),
      voice_(parts_.place.uri(), parts_.place.inside, parts_.sinks),
      progress_(parts_.clock),
      workers_(std::make_unique<WorkerPool>("checkpoint", parts_.options.threads)) {}

CheckpointMirror::~CheckpointMirror() {
  cancel();
  thread_.join();
  workers_.reset();
}

void CheckpointMirror::stopping() {
  std::unique_lock lock(mutex_);
  const int mine = ++stops_wanted_;
  wake();
  changed_.wait_for(lock, kLongestStop,
                    [this, mine] { return stops_taken_ >= mine || has_ended_; });
}

void CheckpointMirror::killed(const Kill& kill) {
  const HeardKill heard{.kill = kill, .at = now()};
  {
    const MutexLock lock(mutex_);
    kills_.push_back(heard);
  }
  wake();
}

void CheckpointMirror::flush() {
  flush_wanted_ = true;
  wake();
}

void CheckpointMirror::cancel() {
  parts_.cancel.request_stop();
  wake();
}

bool CheckpointMirror::wait_for_end(Duration time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return has_ended_; });
}

void CheckpointMirror::wake() const {
  const std::uint64_t one = 1;
  // A counter that is full has woken the thread already.
  static_cast<void>(!write(wake_.get(), &one, sizeof(one)));
}

void CheckpointMirror::run() {
  watch_anew();
  while (!has_ended()) {
    const std::optional<SteadyTime> next = act();
    if (now() >= next_word_) {
      voice_.lag(plan_.lag(now(), is_final_), is_final_, now());
      next_word_ = now() + CheckpointVoice::kInterval;
    }
    wait_for_news(next);
    const bool is_flush_wanted = flush_wanted_;  // what was told before it comes first
    take_news();
    take_kills();
    take_finished();
    if (is_flush_wanted && !is_final_) {
      take_news();
      look();
      flush_began_ = now();
      next_word_ = {};
      is_final_ = true;
    } else if (!is_final_ && now() >= next_look_) {
      look();
    }
  }
}

// Whether there is nothing more to do here, and then says how it went.
bool CheckpointMirror::has_ended() {
  if (parts_.cancel.stop_requested()) {
    if (running_ == 0) {
      end(false);
    }
    return running_ == 0;
  }
  if (!is_final_) {
    return false;
  }
  if (plan_.is_idle()) {
    end(is_whole_);
    return true;
  }
  const SteadyTime moved = std::max(flush_began_, progress_.last());
  if (now() - moved >= parts_.options.no_progress) {
    parts_.cancel.request_stop();
  }
  return false;
}

void CheckpointMirror::end(bool is_complete) {
  const MirrorLag lag = plan_.lag(now(), is_final_);
  if (is_complete) {
    voice_.lag(lag, /*is_flushing=*/true, now());
  } else if (is_final_ && lag.files + lag.removals > 0) {
    voice_.given_up(lag, plan_.missing(kNamedMissing));
  } else if (is_final_) {
    voice_.note("A part of " + parts_.place.inside +
                " could not be read: its checkpoints may be missing in S3.");
  }
  if (const Result<void> saved = save_stored(parts_.place, plan_.stored()); !saved) {
    log_warning("the next attempt restores all checkpoints: " + saved.error().message);
  }
  is_complete_ = is_complete;
  const MutexLock lock(mutex_);
  has_ended_ = true;
  changed_.notify_all();
}

void CheckpointMirror::wait_for_news(std::optional<SteadyTime> wake) {
  SteadyTime until = now() + kLongestWait;
  if (!is_final_) {
    until = std::min(until, next_look_);
  }
  if (wake) {
    until = std::min(until, *wake);
  }
  const Duration left = std::max(std::chrono::ceil<Duration>(until - now()), Duration(0));
  pollfd fds[] = {{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                  {.fd = watch_ ? watch_->fd() : -1, .events = POLLIN, .revents = 0}};
  poll(fds, std::size(fds), static_cast<int>(left.count()));
  std::uint64_t count = 0;
  static_cast<void>(!read(wake_.get(), &count, sizeof(count)));
}

void CheckpointMirror::watch_anew() {
  Result<std::unique_ptr<CheckpointWatch>> watch = CheckpointWatch::open(tree_);
  if (watch) {
    watch_ = std::move(*watch);
  } else {
    watch_.reset();
    log_warning("checkpoints are found by looking only: " + watch.error().message);
  }
  look();
}

void CheckpointMirror::watch(const std::string& directory) {
  if (!watch_ || watch_->is_watched(directory)) {
    return;
  }
  const Result<void> added = watch_->add(directory);
  if (!added && added.error().code == Code::kExhausted && !std::exchange(has_warned_, true)) {
    log_warning("some checkpoints are found by looking only: " + added.error().message);
  }
}

void CheckpointMirror::take_news() {
  if (!watch_) {
    return;
  }
  bool is_lost = false;
  for (const TreeNews& news : watch_->take()) {
    if (news.kind == TreeNews::Kind::kLost) {
      is_lost = true;
    } else {
      take(news);
    }
  }
  if (is_lost) {
    log_info("news of the checkpoint directory were lost: looking at all of it");
    watch_anew();
  }
  for (const Running& running : uploads_) {
    if (plan_.is_outdated(running.upload)) {
      *running.is_pointless = true;
    }
  }
}

void CheckpointMirror::take(const TreeNews& news) {
  if (news.is_directory && news.kind == TreeNews::Kind::kGone) {
    watch_->forget_below(news.path);
    plan_.gone_below(news.path, now());
    return;
  }
  if (news.is_directory) {
    const bool is_moved = news.kind == TreeNews::Kind::kMovedIn;
    return enter(news.path, is_moved ? Writer::kClosed : Writer::kUnknown);
  }
  const Result<FileState> state = tree_.look(news.path);
  if (!state) {
    if (state.error().subject == "oddity") {
      voice_.left_out(news.path, state.error().message);
    }
    if (state.error().subject == "oddity" || state.error().code == Code::kNotFound) {
      plan_.gone(news.path, now());
    }
    return;
  }
  Writer writer = Writer::kUnknown;
  if (news.kind == TreeNews::Kind::kWritten || news.kind == TreeNews::Kind::kMovedIn) {
    writer = Writer::kClosed;
  } else if (news.kind == TreeNews::Kind::kMade && state->size == 0) {
    writer = Writer::kOpen;
  }
  plan_.saw(news.path, *state, writer, now());
}

// A directory that has just appeared: watched first, then read, so that nothing falls between.
void CheckpointMirror::enter(const std::string& directory, Writer writer) {
  watch(directory);
  const TreeScan scan = tree_.scan(directory);
  for (const std::string& found : scan.directories) {
    watch(found);
  }
  for (const Oddity& oddity : scan.oddities) {
    voice_.left_out(oddity.path, oddity.why);
  }
  plan_.scanned(scan, directory, writer, now());
}

void CheckpointMirror::look() {
  const SteadyTime began = now();
  watch("");
  const TreeScan scan = tree_.scan();
  for (const std::string& directory : scan.directories) {
    watch(directory);
  }
  for (const Oddity& oddity : scan.oddities) {
    voice_.left_out(oddity.path, oddity.why);
  }
  plan_.scanned(scan, "", Writer::kUnknown, now());
  is_whole_ = scan.is_whole;
  if (is_whole_) {
    progress_.forget_all_but(scan.files);
  }
  next_look_ = now() + std::max(parts_.options.look_interval,
                                std::chrono::duration_cast<Duration>((now() - began) * kLookShare));
}

bool CheckpointMirror::is_being_written(const std::string& path) const {
  const Result<Fd> fd = tree_.open(path);
  return fd && is_open_for_writing(fd->get()).value_or(false);
}

std::set<std::string> CheckpointMirror::written_now() const {
  std::set<std::string> paths = plan_.replacing();
  std::erase_if(paths, [this](const std::string& path) { return !is_being_written(path); });
  return paths;
}

std::set<std::string> CheckpointMirror::torn_by(const HeardKill& heard) const {
  const Kill& kill = heard.kill;
  std::set<std::string> torn = plan_.closed_lately(plan_.replacing(), heard.at);
  std::erase_if(torn, [&](const std::string& path) {
    const Result<FileState> state = tree_.look(path);
    const bool is_later = state && std::chrono::nanoseconds(state->mtime_ns) >
                                       kill.at.time_since_epoch() + Duration(1);
    return is_later || is_being_written(path) ||
           (kill.is_by_stop && !written_at_stop_.contains(path));
  });
  return torn;
}

// Of a process that dies, the kernel closes the files before it tells that it is dead: the news of
// the close are here by now. What others write on is left to them. A look may take long: it changes
// neither how long before a kill a file was closed, nor what was open when a stop came, as far as
// that is known before it.
void CheckpointMirror::take_kills() {
  std::vector<HeardKill> kills;
  int stops = 0;
  bool is_stop = false;
  {
    const MutexLock lock(mutex_);
    kills.swap(kills_);
    stops = stops_wanted_;
    is_stop = stops != stops_taken_;
  }
  if (!is_stop && kills.empty()) {
    return;
  }
  take_news();
  if (is_stop) {
    written_at_stop_.merge(written_now());
  }
  look();
  for (const HeardKill& heard : kills) {
    const std::set<std::string> torn = torn_by(heard);
    plan_.torn_by_kill(torn);
    for (const std::string& path : torn) {
      voice_.left_out(path, "its writer was killed while it wrote; S3 keeps what it has of it");
    }
  }
  if (is_stop) {
    written_at_stop_.merge(written_now());
    const MutexLock lock(mutex_);
    stops_taken_ = stops;
    changed_.notify_all();
  }
}

// Starts what is due. When to look at it again.
std::optional<SteadyTime> CheckpointMirror::act() {
  if (parts_.cancel.stop_requested()) {
    return std::nullopt;
  }
  const MirrorActions actions = plan_.next(parts_.options.threads - running_, is_final_, now());
  for (const Upload& upload : actions.uploads) {
    start_upload(upload);
  }
  for (const Removal& removal : actions.removals) {
    start_removal(removal);
  }
  return actions.wake;
}

void CheckpointMirror::start_upload(const Upload& upload) {
  ++running_;
  const auto is_pointless = std::make_shared<std::atomic<bool>>(false);
  uploads_.push_back({upload, is_pointless});
  workers_->post([this, upload, is_pointless] {
    const UploadHooks hooks{.is_pointless = [&] { return is_pointless->load(); },
                            .progress = progress_};
    finish({upload, send_file(tree_, parts_.store, upload, hooks)});
  });
}

void CheckpointMirror::start_removal(const Removal& removal) {
  ++running_;
  workers_->post([this, removal] {
    finish({removal, remove_object(tree_, parts_.store, removal)});
  });
}

void CheckpointMirror::finish(Finished finished) {
  {
    const MutexLock lock(mutex_);
    finished_.push_back(std::move(finished));
  }
  wake();
}

void CheckpointMirror::take_finished() {
  std::vector<Finished> all;
  {
    const MutexLock lock(mutex_);
    all.swap(finished_);
  }
  for (Finished& finished : all) {
    --running_;
    const TransferEnd& end = finished.report.end;
    if (end.kind == TransferEnd::Kind::kStoreFailed || end.kind == TransferEnd::Kind::kFileFailed) {
      voice_.trouble(finished.report.why);
      log_warning("checkpoint: " + finished.report.why);
    }
    if (const auto* removal = std::get_if<Removal>(&finished.what)) {
      plan_.removed(*removal, end, now());
      if (end.kind == TransferEnd::Kind::kDone) {
        progress_.done(removal->path);
      }
      continue;
    }
    const Upload& upload = std::get<Upload>(finished.what);
    if (end.kind == TransferEnd::Kind::kRefused) {
      voice_.left_out(upload.path, finished.report.why);
    }
    if (end.was_forced) {
      voice_.sent_open(upload.path);
    } else if (end.kind == TransferEnd::Kind::kHeldOpen && upload.is_final) {
      voice_.left_out(upload.path, finished.report.why);
    }
    plan_.uploaded(upload, end, now());
    std::erase_if(uploads_,
                  [&](const Running& running) { return running.upload.path == upload.path; });
  }
}

}  // namespace trainyard::instance
