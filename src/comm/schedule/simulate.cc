// SPDX-License-Identifier: Apache-2.0
#include "comm/schedule/simulate.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/schedule/internal/buffers.h"

namespace trainyard::comm {
namespace {

struct Message {
  std::uint64_t piece = 0;
  std::int32_t level = 0;
  std::vector<Cell> cells;
  std::vector<std::int32_t> waiting;  // receivers that do not have it yet
  std::vector<std::uint32_t> clock;   // the sender's
};
using Sent = std::shared_ptr<Message>;  // in the sender's list and in those of its receivers

// A FIFO whose messages stay where they are.
struct Channel {
  std::vector<Sent> messages;
  std::size_t next = 0;
  const Sent* front() const { return next < messages.size() ? &messages[next] : nullptr; }
};

struct Turn {
  std::size_t step = 0;
  std::uint64_t piece = 0;
};

// The order of schedule.h.
std::vector<Turn> turns_of(const Schedule& schedule, std::uint64_t pieces) {
  std::vector<std::tuple<std::uint64_t, std::uint64_t, std::size_t>> keys;
  keys.reserve(schedule.steps.size() * pieces);
  for (std::size_t s = 0; s < schedule.steps.size(); ++s) {
    for (std::uint64_t k = 0; k < pieces; ++k) {
      const auto stride = static_cast<std::uint64_t>(schedule.stride);
      keys.emplace_back(k * stride + static_cast<std::uint64_t>(schedule.steps[s].level), k, s);
    }
  }
  std::sort(keys.begin(), keys.end());
  std::vector<Turn> turns;
  turns.reserve(keys.size());
  for (const auto& [time, k, s] : keys) {
    turns.push_back({s, k});
  }
  return turns;
}

struct Wait {
  std::int32_t on = 0;
  bool is_for_room = false;
};

bool has_windows(const std::vector<SimulatedRank>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [](const SimulatedRank& rank) { return rank.schedule.windows; });
}

class Rehearsal {
 public:
  Rehearsal(std::vector<SimulatedRank>& ranks, const Conditions& conditions)
      : ranks_(ranks),
        size_(static_cast<std::int32_t>(ranks.size())),
        room_(conditions.room),
        channels_(ranks.size() * ranks.size()),
        under_way_(ranks.size()),
        next_(ranks.size()),
        uses_(has_windows(ranks) ? std::make_unique<SharedUse>(ranks.size()) : nullptr),
        buffers_(ranks, uses_.get()) {
    traffic_.elements.resize(ranks.size());
    traffic_.messages.resize(ranks.size());
    for (const SimulatedRank& rank : ranks) {
      pieces_.push_back(rank.schedule.longest == 0 ? 1 : conditions.pieces);
      turns_.push_back(turns_of(rank.schedule, pieces_.back()));
    }
  }

  Result<Traffic> run() {
    bool is_moving = true;
    while (is_moving) {
      is_moving = false;
      for (std::int32_t r = 0; r < size_; ++r) {
        while (!is_done(r) && !wait_of(r)) {
          if (auto performed = perform(r); !performed) {
            return performed.error().in(place_of(r));
          }
          ++next_[index(r)];
          is_moving = true;
        }
      }
    }
    YARD_TRY(check_end());
    return std::move(traffic_);
  }

 private:
  static std::size_t index(std::int32_t rank) { return static_cast<std::size_t>(rank); }
  Channel& channel(std::int32_t from, std::int32_t to) {
    return channels_[index(from) * index(size_) + index(to)];
  }
  bool is_done(std::int32_t r) const { return next_[index(r)] == turns_[index(r)].size(); }
  const Turn& turn_of(std::int32_t r) const { return turns_[index(r)][next_[index(r)]]; }
  const Step& step_of(std::int32_t r) const {
    return ranks_[index(r)].schedule.steps[turn_of(r).step];
  }
  std::uint64_t length_of(std::int32_t r) const {
    return piece(r, Slice{.length = step_of(r).length}).length;
  }
  Slice piece(std::int32_t r, const Slice& slice) const {
    return piece_of(slice, turn_of(r).piece, pieces_[index(r)]);
  }
  bool is_empty(std::int32_t r) const {
    return length_of(r) == 0 && !step_of(r).token && !step_of(r).always;
  }

  // What keeps `r` from its next turn.
  std::optional<Wait> wait_of(std::int32_t r) {
    if (is_empty(r)) {
      return std::nullopt;
    }
    for (const std::int32_t peer : step_of(r).from) {
      if (channel(peer, r).front() == nullptr) {
        return Wait{.on = peer};
      }
    }
    std::vector<Sent>& mine = under_way_[index(r)];
    std::erase_if(mine, [](const Sent& sent) { return sent->waiting.empty(); });
    if (!step_of(r).to.empty() && mine.size() >= room_) {
      return Wait{.on = mine.front()->waiting.front(), .is_for_room = true};
    }
    return std::nullopt;
  }

  Result<void> perform(std::int32_t r) {
    if (is_empty(r)) {
      return {};
    }
    if (uses_) {
      uses_->begin_step(r);
    }
    const Step& step = step_of(r);
    YARD_TRY(std::vector<Cell> result, combined(r, step));
    for (Cell& cell : result) {
      if (step.finish && cell.is_final) {
        return Error{Code::kCorrupt, "it finishes a value for the second time"};
      }
      cell.is_final = cell.is_final || step.finish;
    }
    if (step.store && !stays_where_it_is(r, step)) {
      YARD_TRY(buffers_.store(r, r, piece(r, *step.store), result));
    }
    for (const std::int32_t peer : step.write) {
      YARD_TRY(buffers_.store(r, peer, remote(r, step, Region::kOutput), result));
    }
    traffic_.elements[index(r)] += result.size() * (step.write.size() + step.to.size());
    if (!step.to.empty()) {
      send(r, step, std::move(result));
    }
    return {};
  }

  // A copy onto itself, which nobody performs.
  bool stays_where_it_is(std::int32_t r, const Step& step) {
    return step.own && step.from.empty() && step.read.empty() && !step.finish &&
           buffers_.are_same(r, piece(r, *step.own), piece(r, *step.store));
  }

  Slice remote(std::int32_t r, const Step& step, Region region) const {
    const Slice there = step.remote.value_or(Slice{});
    return piece(r, {region, there.offset, there.length});
  }

  // The sum of all operands, in the order of ranks, its own among them.
  Result<std::vector<Cell>> combined(std::int32_t r, const Step& step) {
    std::vector<Cell> sum;
    bool is_first = true;
    std::size_t from = 0;
    std::size_t read = 0;
    for (std::int32_t peer = 0; peer < size_; ++peer) {
      std::vector<Cell> operand;
      if (from < step.from.size() && step.from[from] == peer) {
        ++from;
        YARD_TRY(operand, receive(r, peer));
      } else if (read < step.read.size() && step.read[read] == peer) {
        ++read;
        YARD_TRY(operand, buffers_.load(r, peer, remote(r, step, Region::kInput)));
      } else if (peer == r && step.own) {
        YARD_TRY(operand, buffers_.load(r, r, piece(r, *step.own)));
      } else {
        continue;
      }
      if (operand.size() != length_of(r)) {
        return Error{Code::kCorrupt, "its operands are not as long as itself"};
      }
      if (is_first) {
        sum = std::move(operand);
      } else {
        YARD_TRY(add_to(sum, operand));
      }
      is_first = false;
    }
    if (from < step.from.size() || read < step.read.size()) {
      return Error{Code::kCorrupt, "its operands are not in the order of ranks"};
    }
    return sum;
  }

  static Result<void> add_to(std::vector<Cell>& sum, const std::vector<Cell>& operand) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      if (sum[i].is_final || operand[i].is_final) {
        return Error{Code::kCorrupt, "it combines a value that was final"};
      }
      sum[i].value += operand[i].value;
    }
    return {};
  }

  Result<std::vector<Cell>> receive(std::int32_t r, std::int32_t peer) {
    Channel& source = channel(peer, r);
    Message& message = **source.front();
    if (message.level + 1 != step_of(r).level || message.piece != turn_of(r).piece ||
        message.cells.size() != length_of(r)) {
      return Error{Code::kConflict,
                   fmt::format("the next message of rank {} is piece {} of level "
                               "{} with {} elements",
                               peer, message.piece, message.level, message.cells.size())};
    }
    if (uses_) {
      uses_->hear(r, message.clock);
    }
    std::erase(message.waiting, r);
    std::vector<Cell> cells = message.waiting.empty() ? std::move(message.cells) : message.cells;
    ++source.next;
    return cells;
  }

  void send(std::int32_t r, const Step& step, std::vector<Cell> cells) {
    ++traffic_.messages[index(r)];
    const auto message = std::make_shared<Message>(Message{.piece = turn_of(r).piece,
                                                           .level = step.level,
                                                           .cells = std::move(cells),
                                                           .waiting = step.to,
                                                           .clock = {}});
    if (uses_) {
      message->clock = uses_->clock(r);
    }
    for (const std::int32_t peer : step.to) {
      channel(r, peer).messages.push_back(message);
    }
    under_way_[index(r)].push_back(message);
  }

  std::string place_of(std::int32_t r) {
    Schedule one{.algorithm = ranks_[index(r)].schedule.algorithm, .steps = {step_of(r)}};
    std::string text = to_string(one);
    text.pop_back();
    return fmt::format("rank {} does step {}, piece {} of {} ({})", r, turn_of(r).step,
                       turn_of(r).piece, pieces_[index(r)], text);
  }

  Result<void> check_end() {
    std::string picture;
    for (std::int32_t r = 0; r < size_; ++r) {
      if (!is_done(r)) {
        const Wait wait = wait_of(r).value_or(Wait{});
        picture += fmt::format("{} and waits for {} rank {}{}\n", place_of(r),
                               wait.is_for_room ? "room for a message, as had by" : "a message of",
                               wait.on, is_done(wait.on) ? ", which is done" : "");
      }
    }
    if (!picture.empty()) {
      return Error{Code::kDeadline, "nobody can go on:\n" + picture};
    }
    for (std::int32_t from = 0; from < size_; ++from) {
      for (std::int32_t to = 0; to < size_; ++to) {
        if (channel(from, to).front() != nullptr) {
          return Error{Code::kConflict,
                       fmt::format("rank {} never received a message of rank {}", to, from)};
        }
      }
    }
    for (std::int32_t r = 0; uses_ && r < size_; ++r) {
      if (!uses_->is_over(r)) {
        return Error{Code::kCorrupt,
                     fmt::format("rank {} is done while others may use its memory", r)};
      }
    }
    return {};
  }

  std::vector<SimulatedRank>& ranks_;
  std::int32_t size_;
  std::uint64_t room_;
  std::vector<Channel> channels_;
  std::vector<std::vector<Sent>> under_way_;  // by sender
  std::vector<std::size_t> next_;             // the next turn of each rank
  std::vector<std::uint64_t> pieces_;
  std::vector<std::vector<Turn>> turns_;
  std::unique_ptr<SharedUse> uses_;  // with windows
  Buffers buffers_;
  Traffic traffic_;
};

}  // namespace

Result<Traffic> simulate(std::vector<SimulatedRank>& ranks, const Conditions& conditions) {
  return Rehearsal(ranks, conditions).run();
}

std::uint64_t most_in_flight(const Schedule& schedule) {
  // Times that are a stride apart see the same, but for one piece there is only the first one.
  std::int32_t period = schedule.stride;
  for (const Step& step : schedule.steps) {
    period = schedule.longest == 0 ? std::max(period, step.level + 2) : period;
  }
  std::vector<std::uint64_t> sent(static_cast<std::size_t>(period));
  for (const Step& step : schedule.steps) {
    sent[static_cast<std::size_t>(step.level % period)] += step.to.empty() ? 0 : 1;
  }
  std::uint64_t most = 0;
  for (std::size_t time = 0; time < sent.size(); ++time) {
    most = std::max(most, sent[time] + sent[(time + 1) % sent.size()]);
  }
  return most;
}

}  // namespace trainyard::comm
