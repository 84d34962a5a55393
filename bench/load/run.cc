// SPDX-License-Identifier: Apache-2.0
#include "bench/load/run.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "bench/load/idle.h"
#include "bench/load/socket.h"
#include "bench/load/sync.h"
#include "bench/load/work.h"

namespace trainyard::load {
namespace {

constexpr std::size_t kMostFailures = 20;
constexpr std::size_t kBuffer = std::size_t{256} << 10;
constexpr std::chrono::milliseconds kLongestWait{100};

enum class Step { kPausing, kSending, kReceiving, kSyncing, kDone };

struct Channel {
  Fd fd = {};
  Step step = Step::kPausing;
  Next next = {};
  bool has_next = false;
  std::size_t sent = 0;
  AnswerReader reader{};
  SteadyTime due{};    // of the next request, while pausing
  SteadyTime began{};  // of the current request
  bool waits_for_room = false;
};

class Run {
 public:
  Run(const Plan& plan, const Clock& clock)
      : plan_(plan),
        clock_(clock),
        work_(make_work(plan, clock)),
        syncer_(plan.sync_root, plan.connections),
        buffer_(std::make_unique<char[]>(kBuffer)) {}

  Result<Report> go();

 private:
  Result<void> open();
  Result<void> connect(std::size_t index);
  void loop();
  std::chrono::milliseconds start_due();
  void begin(std::size_t index);
  void begin_request(std::size_t index, SteadyTime now);
  void send(std::size_t index);
  void receive(std::size_t index);
  void take_answer(std::size_t index);
  void complete(std::size_t index);
  void take_synced();
  void fail(std::size_t index, const Error& error);
  void lose(std::size_t index, const Error& error);
  void end(std::size_t index);
  void watch(std::size_t index, bool for_room);
  void check_timeouts();
  bool may_begin(SteadyTime now) const;

  const Plan& plan_;
  const Clock& clock_;
  std::unique_ptr<Work> work_;
  Syncer syncer_;
  std::unique_ptr<char[]> buffer_;
  Fd epoll_;
  std::vector<Channel> channels_;
  std::size_t open_ = 0;  // channels that are not done
  std::uint64_t begun_ = 0;
  SteadyTime started_{};
  SteadyTime last_{};  // the last answer
  Report report_;
};

Result<Report> Run::go() {
  YARD_TRY(IdleConnections idle, IdleConnections::open(plan_, *work_));
  YARD_TRY(open());
  loop();
  report_.idle_held = idle.count_answering(*work_);
  report_.elapsed = std::max(last_ - started_, SteadyTime::duration(1));
  report_.items = work_->items();
  if (const Histogram* lags = work_->lags(); lags != nullptr) {
    report_.lag = *lags;
  }
  return std::move(report_);
}

Result<void> Run::open() {
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.is_open()) {
    return errno_error("epoll", errno);
  }
  YARD_TRY(syncer_.open());
  epoll_event event{.events = EPOLLIN, .data = {.u64 = plan_.connections}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, syncer_.fd(), &event);
  channels_.resize(plan_.connections);
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    YARD_TRY(connect(i));
  }
  open_ = channels_.size();
  return {};
}

Result<void> Run::connect(std::size_t index) {
  Channel& channel = channels_[index];
  channel.fd = Fd();  // closed, and so out of the epoll set
  YARD_TRY(channel.fd, connect_to(plan_));
  YARD_TRY(make_nonblocking(channel.fd));
  ++report_.connects;
  channel.waits_for_room = false;
  epoll_event event{.events = EPOLLIN, .data = {.u64 = index}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, channel.fd.get(), &event) != 0) {
    return errno_error("epoll", errno);
  }
  return {};
}

void Run::loop() {
  started_ = last_ = clock_.steady_now();
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    // Where a pace is set, the connections' turns are spread over it.
    const auto offset = plan_.every.value_or(Duration(0)) * i / channels_.size();
    channels_[i].due = started_ + std::chrono::duration_cast<SteadyTime::duration>(offset);
  }
  std::array<epoll_event, 256> events;
  SteadyTime checked = started_;
  while (open_ > 0) {
    const auto wait = start_due();
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   static_cast<int>(wait.count()));
    for (int i = 0; i < count; ++i) {
      const std::size_t index = events[static_cast<std::size_t>(i)].data.u64;
      if (index == plan_.connections) {
        take_synced();
      } else if (channels_[index].step == Step::kSending) {
        send(index);
      } else {
        receive(index);
      }
    }
    if (const SteadyTime now = clock_.steady_now(); now - checked > kLongestWait) {
      checked = now;
      check_timeouts();
    }
  }
}

// Begins what is due; gives how long until something else will be.
std::chrono::milliseconds Run::start_due() {
  const SteadyTime now = clock_.steady_now();
  auto wait = std::chrono::duration_cast<SteadyTime::duration>(kLongestWait);
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    Channel& channel = channels_[i];
    if (channel.step != Step::kPausing) {
      continue;
    }
    if (channel.due <= now) {
      begin(i);
    }
    if (channel.step == Step::kPausing) {
      wait = std::min(wait, channel.due - now);
    }
  }
  return std::chrono::ceil<std::chrono::milliseconds>(std::max(wait, SteadyTime::duration(0)));
}

bool Run::may_begin(SteadyTime now) const {
  return (!plan_.requests || begun_ < *plan_.requests) &&
         (!plan_.time || now < started_ + *plan_.time) && report_.failed < kMostFailures;
}

// The next request of a channel that pauses: at once, or when it is due.
void Run::begin(std::size_t index) {
  Channel& channel = channels_[index];
  const SteadyTime now = clock_.steady_now();
  if (!may_begin(now)) {
    return end(index);
  }
  if (!channel.has_next) {
    auto given = work_->next(index);
    std::optional<Next> next = given ? *std::move(given) : std::nullopt;
    if (!next) {
      return end(index);
    }
    channel.next = *std::move(next);
    channel.has_next = true;
    if (channel.next.after.count() > 0) {
      channel.due = now + channel.next.after;
      return;
    }
  }
  begin_request(index, now);
}

void Run::begin_request(std::size_t index, SteadyTime now) {
  Channel& channel = channels_[index];
  ++begun_;
  channel.has_next = false;
  channel.began = plan_.every ? channel.due : now;
  channel.sent = 0;
  channel.reader = AnswerReader(work_->looks_into_bodies(), plan_.request.method != "HEAD");
  channel.step = Step::kSending;
  send(index);
}

void Run::send(std::size_t index) {
  Channel& channel = channels_[index];
  const Prepared& request = *channel.next.request;
  const std::string& body = request.body();
  while (channel.sent < request.head.size() + body.size()) {
    std::array<iovec, 2> parts{};
    const std::size_t of_head = std::min(channel.sent, request.head.size());
    const std::size_t of_body = channel.sent - of_head;
    parts[0] = {const_cast<char*>(request.head.data()) + of_head, request.head.size() - of_head};
    parts[1] = {const_cast<char*>(body.data()) + of_body, body.size() - of_body};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t n = ::sendmsg(channel.fd.get(), &message, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return watch(index, true);
    }
    if (n < 0) {
      // The answer that says why may be there already.
      channel.step = Step::kReceiving;
      return receive(index);
    }
    channel.sent += static_cast<std::size_t>(n);
  }
  report_.bytes_sent += body.size();
  channel.step = Step::kReceiving;
  watch(index, false);
}

void Run::watch(std::size_t index, bool for_room) {
  Channel& channel = channels_[index];
  if (channel.waits_for_room == for_room) {
    return;
  }
  channel.waits_for_room = for_room;
  epoll_event event{.events = EPOLLIN | (for_room ? std::uint32_t{EPOLLOUT} : 0U),
                    .data = {.u64 = index}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, channel.fd.get(), &event);
}

void Run::receive(std::size_t index) {
  Channel& channel = channels_[index];
  if (channel.step == Step::kDone) {
    return;
  }
  const ssize_t n = ::recv(channel.fd.get(), buffer_.get(), kBuffer, 0);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    return;
  }
  if (n <= 0) {
    return lose(index, n < 0 ? errno_error("recv", errno)
                             : Error{Code::kUnavailable, "the server closed the connection"});
  }
  if (channel.step != Step::kReceiving) {
    return fail(index, {Code::kCorrupt, "bytes that nobody asked for"});
  }
  report_.bytes_received += static_cast<std::uint64_t>(n);
  if (auto fed = channel.reader.feed({buffer_.get(), static_cast<std::size_t>(n)}); !fed) {
    return fail(index, fed.error());
  }
  if (channel.reader.is_done()) {
    take_answer(index);
  }
}

void Run::take_answer(std::size_t index) {
  Channel& channel = channels_[index];
  if (auto right = work_->check(index, channel.next, channel.reader.answer()); !right) {
    return fail(index, right.error());
  }
  if (!plan_.sync_root.empty()) {
    channel.step = Step::kSyncing;
    return syncer_.sync(index, channel.next.path);
  }
  complete(index);
}

void Run::take_synced() {
  for (const auto& [index, done] : syncer_.take()) {
    if (channels_[index].step != Step::kSyncing) {
      continue;  // its time was over
    }
    if (done) {
      complete(index);
    } else {
      fail(index, done.error());
    }
  }
}

void Run::complete(std::size_t index) {
  Channel& channel = channels_[index];
  last_ = clock_.steady_now();
  report_.latency.add(last_ - channel.began);
  ++report_.requests;
  if (plan_.lists_acknowledged) {
    report_.acknowledged.push_back(channel.next.number);
  }
  channel.step = Step::kPausing;
  channel.due = plan_.every ? channel.due + *plan_.every : last_;
  if (channel.reader.answer().closes) {
    if (auto connected = connect(index); !connected) {
      return lose(index, connected.error());
    }
  }
  if (channel.due <= last_) {
    begin(index);
  }
}

// After an I/O error or a wrong answer the connection is made anew.
void Run::fail(std::size_t index, const Error& error) {
  ++report_.failed;
  if (report_.failures.size() < 5) {
    report_.failures.push_back(error.message);
  }
  Channel& channel = channels_[index];
  channel.step = Step::kPausing;
  channel.has_next = false;
  channel.due = clock_.steady_now();
  if (auto connected = connect(index); !connected) {
    end(index);
  }
}

void Run::lose(std::size_t index, const Error& error) {
  if (!plan_.may_break) {
    return fail(index, error);
  }
  ++report_.broken;
  end(index);
}

void Run::end(std::size_t index) {
  Channel& channel = channels_[index];
  channel.step = Step::kDone;
  channel.fd = Fd();
  --open_;
}

void Run::check_timeouts() {
  const SteadyTime now = clock_.steady_now();
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    const Channel& channel = channels_[i];
    if (channel.step != Step::kPausing && channel.step != Step::kDone &&
        now - channel.began > plan_.answer_timeout) {
      fail(i, {Code::kDeadline, "no answer within the time-out: " + channel.next.path});
    }
  }
}

}  // namespace

Result<Report> run(const Plan& plan, const Clock& clock) {
  return Run(plan, clock).go();
}

}  // namespace trainyard::load
