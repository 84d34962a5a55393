// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/join.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"
#include "comm/rendezvous/doorstep.h"
#include "comm/rendezvous/interfaces.h"
#include "comm/rendezvous/meeting_folder.h"

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kConnectTime{5000};  // of one address
constexpr milliseconds kPause{100};         // before all are tried again
constexpr milliseconds kLongest{60'000};    // of a poll
constexpr std::int32_t kMostPlaces = 65536;

class Joining {
 public:
  Joining(const CommunicatorOptions& options, RendezvousStore& store)
      : options_(options), store_(store), end_(steady_clock::now() + options.join_timeout) {}
  ~Joining() {
    if (!socket_file_.empty()) {
      ::unlink(socket_file_.c_str());
    }
  }
  Joining(const Joining&) = delete;
  Joining& operator=(const Joining&) = delete;

  Result<Joined> run(const MakeSegments& make_segments, const std::string& settings);

 private:
  bool leads() const { return joined_.hosts.leader_of(options_.rank) == options_.rank; }
  const std::vector<std::int32_t>& local_ranks() const {
    return joined_.hosts.ranks[static_cast<std::size_t>(
        joined_.hosts.of_rank[static_cast<std::size_t>(options_.rank)])];
  }
  milliseconds left() const {
    return std::max(milliseconds(0),
                    std::chrono::duration_cast<milliseconds>(end_ - steady_clock::now()));
  }
  std::string key(std::string_view what, std::int32_t rank) const {
    return fmt::format("trainyard/{}/{}/{}", options_.name, what, rank);
  }

  std::vector<std::string> addresses_for_people() const;
  Result<void> introduce();
  Result<void> agree_on_size(const std::string& own);
  Error other_size(const Member& other) const;
  Result<void> meet_all();
  Result<std::vector<std::string>> wait_for_ranks(std::string_view what);
  Result<void> publish_addresses();
  Result<void> accept_below(const std::set<std::int32_t>& expected, int listener);
  Result<void> connect_up();
  Result<void> gather_below();
  Result<void> hear_that_all_are_there();
  void tell_below();
  Result<void> read_addresses();
  Error missing(const std::vector<std::int32_t>& ranks) const;

  const CommunicatorOptions& options_;
  RendezvousStore& store_;
  const steady_clock::time_point end_;
  Joined joined_;
  Fd local_listener_;
  std::string socket_file_;  // when the listener has a name in a folder
  TcpListener control_;      // of rank 0
};

// A world of one host needs none: what is wrong with the choice is said where it is used.
std::vector<std::string> Joining::addresses_for_people() const {
  const auto interfaces = read_interfaces();
  auto chosen = interfaces ? choose_addresses(*interfaces, options_.interface, false)
                           : Result<std::vector<std::string>>(interfaces.error());
  return std::move(chosen).value_or({});
}

// Claims this rank's number in the store.
Result<void> Joining::introduce() {
  SystemRandom random;
  const std::string place = usable_meeting_folder(options_.sockets);
  YARD_TRY(const Machine machine, read_this_machine(place));
  Member own{.rank = options_.rank,
             .size = options_.size,
             .host_key = options_.host.empty() ? machine.host_key : options_.host,
             .host_name = machine.host_name,
             .network = machine.network,
             .pid = ::getpid(),
             .local_socket =
                 (place.empty() ? "@trainyard-" : place + "/" + kMeetingSocket) + random.hex(12),
             .nonce = random.hex(8),
             .addresses = addresses_for_people()};
  YARD_TRY(local_listener_, listen_local(own.local_socket));
  if (!place.empty()) {
    socket_file_ = own.local_socket;
    remove_abandoned_sockets(place);
  }
  const std::string text = encode(own);
  YARD_TRY(agree_on_size(text));
  YARD_TRY(const std::string held, store_.claim(key("rank", options_.rank), text));
  if (held != text) {
    YARD_TRY(const Member other, decode_member(held));
    if (other.size != options_.size) {
      return other_size(other);
    }
    return Error{Code::kAlreadyExists,
                 fmt::format("{} has this number in the world \"{}\" at {} already: give every "
                             "world a name of its own, and every process another rank",
                             describe(other), options_.name, store_.where())};
  }
  if (options_.rank == 0) {
    YARD_TRY(store_.claim(key("secret", 0), random.hex(32)));
  }
  return {};
}

Error Joining::other_size(const Member& other) const {
  return {Code::kConflict,
          fmt::format("the world \"{}\" has two sizes: {} was told of {} ranks, this one (rank {}) "
                      "of {}",
                      options_.name, describe(other), other.size, options_.rank, options_.size)};
}

// The first rank to come says how large the world is. Who was told otherwise leaves its own entry
// in the places of those who have not come, so that nobody waits for them.
Result<void> Joining::agree_on_size(const std::string& own) {
  YARD_TRY(const std::string held, store_.claim(key("size", 0), own));
  const auto first = decode_member(held);
  if (!first || first->size == options_.size) {
    return {};  // what cannot be read shows where its rank is expected
  }
  for (std::int32_t rank = 0; rank < std::min(first->size, kMostPlaces); ++rank) {
    YARD_TRY(store_.claim(key("rank", rank), own));
  }
  return other_size(*first);
}

Result<std::vector<std::string>> Joining::wait_for_ranks(std::string_view what) {
  std::vector<std::string> keys;
  keys.reserve(static_cast<std::size_t>(options_.size));
  for (std::int32_t rank = 0; rank < options_.size; ++rank) {
    keys.push_back(key(what, rank));
  }
  auto values = store_.wait_for(keys, left());
  if (values || values.error().code != Code::kDeadline) {
    return values;
  }
  std::vector<std::int32_t> absent;
  std::string present;
  for (std::int32_t rank = 0; rank < options_.size; ++rank) {
    const std::string& one = keys[static_cast<std::size_t>(rank)];
    YARD_TRY(const bool is_there, store_.has(one));
    if (!is_there) {
      absent.push_back(rank);
      continue;
    }
    const auto value = store_.wait_for({key("rank", rank)}, milliseconds(1000));
    const auto member = value ? decode_member(value->front()) : Result<Member>(value.error());
    present += (present.empty() ? "" : ", ") +
               (member ? describe_with_addresses(*member) : fmt::format("rank {}", rank));
  }
  return Error{Code::kDeadline,
               fmt::format("the world \"{}\" of {} ranks did not complete within {} s: missing "
                           "{}; there are {}; they meet at {}",
                           options_.name, options_.size,
                           std::chrono::duration<double>(options_.join_timeout).count(),
                           list_ranks(absent), present, store_.where())};
}

Result<void> Joining::meet_all() {
  YARD_TRY(const std::vector<std::string> texts, wait_for_ranks("rank"));
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    auto member = decode_member(texts[rank]);
    if (!member) {
      return member.error().in(fmt::format("reading the entry of rank {}", rank));
    }
    if (member->size != options_.size) {
      return other_size(*member);
    }
    joined_.members.push_back(std::move(*member));
  }
  joined_.hosts = group(joined_.members);
  YARD_TRY(check_hosts(joined_.hosts, joined_.members));
  YARD_TRY(const auto secret, store_.wait_for({key("secret", 0)}, left()));
  joined_.secret = secret.front();
  return {};
}

// Only worlds of several hosts open ports.
Result<void> Joining::publish_addresses() {
  YARD_TRY(const auto interfaces, read_interfaces());
  // Ranks that were told to be on several hosts may be on one: tests, trials.
  const bool are_apart = std::ranges::any_of(joined_.members, [&](const Member& one) {
    return one.network != joined_.members.front().network;
  });
  YARD_TRY(const auto addresses, choose_addresses(interfaces, options_.interface, are_apart));
  YARD_TRY(joined_.data, listen_tcp({"", 0}));
  Fields fields = {std::to_string(joined_.data.port)};
  if (options_.rank == 0) {
    YARD_TRY(control_, listen_tcp({"", 0}));
  }
  fields.push_back(std::to_string(control_.port));
  fields.insert(fields.end(), addresses.begin(), addresses.end());
  YARD_TRY(store_.claim(key("address", options_.rank), encode_frame(fields)));
  return {};
}

Error Joining::missing(const std::vector<std::int32_t>& ranks) const {
  std::string text;
  for (const std::int32_t rank : ranks) {
    text += (text.empty() ? "" : ", ") +
            describe_with_addresses(joined_.members[static_cast<std::size_t>(rank)]);
  }
  return {Code::kDeadline,
          fmt::format("the world \"{}\" did not complete within {} s: no "
                      "connection came from {}",
                      options_.name, std::chrono::duration<double>(options_.join_timeout).count(),
                      text)};
}

// A rank knows the secret.
Result<void> Joining::accept_below(const std::set<std::int32_t>& expected, int listener) {
  std::set<std::int32_t> absent = expected;
  Doorstep doorstep(listener);
  std::vector<pollfd> entries;
  while (!absent.empty()) {
    if (left() == milliseconds(0)) {
      return missing({absent.begin(), absent.end()});
    }
    entries.clear();
    doorstep.list(entries);
    const milliseconds patience = doorstep.patience();
    const milliseconds time = std::min(left(), patience < milliseconds(0) ? kLongest : patience);
    if (::poll(entries.data(), entries.size(), static_cast<int>(time.count())) < 0) {
      continue;
    }
    for (Doorstep::Guest& guest : doorstep.look(entries)) {
      const Fields& words = guest.greeting;
      if (words.size() != 3 || words[0] != "join") {
        continue;
      }
      const auto rank = parse_int(words[2]);
      if (rank && equal_in_constant_time(words[1], joined_.secret) &&
          absent.erase(static_cast<std::int32_t>(*rank)) == 1) {
        guest.link.trust();
        joined_.down[static_cast<std::int32_t>(*rank)] =
            std::make_unique<ControlLink>(std::move(guest.link));
      }
    }
  }
  return {};
}

// Ports of data and of joining, then addresses.
Result<Fields> read_address(const std::string& text) {
  FrameReader reader;
  reader.feed(text);
  YARD_TRY(auto fields, reader.next());
  if (!fields || fields->size() < 3) {
    return Error{Code::kCorrupt, "a rank gave no address"};
  }
  return std::move(*fields);
}

// The link to the leader of this host; of a leader, to rank 0.
Result<void> Joining::connect_up() {
  const std::int32_t leader = joined_.hosts.leader_of(options_.rank);
  if (options_.rank != leader) {
    const Member& above = joined_.members[static_cast<std::size_t>(leader)];
    YARD_TRY(Fd fd, connect_local(above.local_socket));
    joined_.up = std::make_unique<ControlLink>(std::move(fd));
    joined_.up->send({"join", joined_.secret, std::to_string(options_.rank)});
    return {};
  }
  if (options_.rank == 0) {
    return {};
  }
  YARD_TRY(const auto texts, store_.wait_for({key("address", 0)}, left()));
  YARD_TRY(const Fields fields, read_address(texts.front()));
  YARD_TRY(const std::int64_t port, parse_int(fields[1]));
  YARD_TRY(const auto own, read_interfaces());
  const auto addresses = order_to_try({fields.begin() + 2, fields.end()}, own, {});
  // A host that is out of reach for a moment, as after a cut, is tried again.
  while (true) {
    std::string tried;
    for (const std::string& address : addresses) {
      const Endpoint endpoint{address, static_cast<std::uint16_t>(port)};
      auto fd = connect_tcp(endpoint, std::min(left(), kConnectTime), false);
      if (fd) {
        YARD_TRY(tune_tcp(fd->get()));
        YARD_TRY(watch_idle(fd->get()));
        joined_.up = std::make_unique<ControlLink>(std::move(*fd));
        joined_.up->send({"join", joined_.secret, std::to_string(options_.rank)});
        return {};
      }
      tried += (tried.empty() ? "" : "; ") + fd.error().message;
    }
    if (left() == milliseconds(0)) {
      return Error{Code::kUnavailable,
                   fmt::format("{} cannot be reached: {}", describe(joined_.members[0]), tried)};
    }
    std::this_thread::sleep_for(std::min(left(), kPause));
  }
}

// Everyone below is there; from rank 0 downwards goes the word that all are.
Result<void> Joining::gather_below() {
  std::set<std::int32_t> local(local_ranks().begin(), local_ranks().end());
  local.erase(options_.rank);
  if (!leads()) {
    local.clear();
  }
  YARD_TRY(accept_below(local, local_listener_.get()));
  if (options_.rank == 0 && joined_.hosts.ranks.size() > 1) {
    std::set<std::int32_t> leaders;
    for (const auto& ranks : joined_.hosts.ranks) {
      leaders.insert(ranks.front());
    }
    leaders.erase(0);
    YARD_TRY(accept_below(leaders, control_.fd.get()));
    for (const std::int32_t leader : leaders) {
      YARD_TRY(tune_tcp(joined_.down[leader]->fd()));
      YARD_TRY(watch_idle(joined_.down[leader]->fd()));
    }
  }
  return {};
}

// What comes down from rank 0: that all are there; and on a host its shared memory.
Result<void> Joining::hear_that_all_are_there() {
  const std::int32_t above = leads() ? 0 : joined_.hosts.leader_of(options_.rank);
  const auto next = [&]() -> Result<ControlMessage> {
    auto word = joined_.up->wait(left());
    if (!word) {
      return word.error().in(
          fmt::format("joining the world \"{}\" by {}", options_.name,
                      describe(joined_.members[static_cast<std::size_t>(above)])));
    }
    return word;
  };
  YARD_TRY(const ControlMessage welcome, next());
  if (welcome.fields.size() != 3 || welcome.fields[0] != "welcome") {
    return Error{Code::kCorrupt, "the world's leader sent no welcome"};
  }
  joined_.settings = welcome.fields[1];
  YARD_TRY(const std::int64_t segments, parse_int(welcome.fields[2]));
  for (std::int64_t i = 0; i < segments && !leads(); ++i) {
    YARD_TRY(ControlMessage segment, next());
    joined_.segments.push_back(std::move(segment.fd));
  }
  return {};
}

void Joining::tell_below() {
  for (const auto& [rank, link] : joined_.down) {
    const bool is_local = std::ranges::find(local_ranks(), rank) != local_ranks().end();
    const std::size_t segments = is_local ? joined_.segments.size() : 0;
    link->send({"welcome", joined_.settings, std::to_string(segments)});
    for (std::size_t i = 0; i < segments; ++i) {
      link->send({"segment+fd"}, joined_.segments[i].get());
    }
  }
}

Result<void> Joining::read_addresses() {
  YARD_TRY(const auto texts, wait_for_ranks("address"));
  for (const std::string& text : texts) {
    YARD_TRY(const Fields fields, read_address(text));
    YARD_TRY(const std::int64_t port, parse_int(fields.front()));
    joined_.data_addresses.push_back({.port = static_cast<std::uint16_t>(port),
                                      .addresses = {fields.begin() + 2, fields.end()}});
  }
  return {};
}

Result<Joined> Joining::run(const MakeSegments& make_segments, const std::string& settings) {
  YARD_TRY(introduce());
  YARD_TRY(meet_all());
  const bool are_apart = joined_.hosts.ranks.size() > 1;
  if (are_apart) {
    YARD_TRY(publish_addresses());
  }
  if (leads() && (local_ranks().size() > 1 || options_.size == 1)) {
    YARD_TRY(joined_.segments, make_segments(static_cast<std::int32_t>(local_ranks().size())));
  }
  YARD_TRY(gather_below());
  YARD_TRY(connect_up());
  joined_.settings = settings;
  if (joined_.up != nullptr) {
    YARD_TRY(hear_that_all_are_there());
  }
  tell_below();
  if (are_apart) {
    YARD_TRY(read_addresses());
  }
  return std::move(joined_);
}

Result<void> check(const CommunicatorOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    return Error{Code::kInvalidArgument,
                 fmt::format("rank {} of a world of {}: ranks count from 0 to the size less one",
                             options.rank, options.size)};
  }
  constexpr milliseconds kYear = std::chrono::hours(24 * 366);
  for (const milliseconds time : {options.timeout, options.join_timeout}) {
    if (time <= milliseconds(0) || time > kYear) {
      return Error{Code::kInvalidArgument, "a time-out is above 0 and at most a year"};
    }
  }
  return {};
}

}  // namespace

Result<Joined> join(const CommunicatorOptions& options, RendezvousStore& store,
                    const MakeSegments& make_segments, const std::string& settings) {
  YARD_TRY(check(options));
  return Joining(options, store).run(make_segments, settings);
}

Result<std::vector<std::uint64_t>> meet(Joined& joined, const CommunicatorOptions& options,
                                        std::vector<std::uint64_t> values) {
  const auto end = steady_clock::now() + options.join_timeout;
  const auto hear = [&](ControlLink& link, std::int32_t from) -> Result<void> {
    const auto left = std::chrono::duration_cast<milliseconds>(end - steady_clock::now());
    const auto word = link.wait(std::max(milliseconds(0), left));
    if (!word) {
      const Member& member = joined.members[static_cast<std::size_t>(from)];
      return word.error().in(fmt::format("meeting {}", describe(member)));
    }
    if (word->fields.size() != values.size() + 1) {
      return Error{Code::kCorrupt, "a rank met the others with other words than expected"};
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      YARD_TRY(const std::int64_t value, parse_int(word->fields[i + 1]));
      values[i] = std::min(values[i], static_cast<std::uint64_t>(value));
    }
    return {};
  };
  const auto words = [&](const char* verb) {
    Fields fields = {verb};
    for (const std::uint64_t value : values) {
      fields.push_back(std::to_string(value));
    }
    return fields;
  };
  for (const auto& [rank, link] : joined.down) {
    YARD_TRY(hear(*link, rank));
  }
  if (joined.up != nullptr) {
    const std::int32_t leader = joined.hosts.leader_of(options.rank);
    joined.up->send(words("ready"));
    YARD_TRY(hear(*joined.up, leader == options.rank ? 0 : leader));
  }
  for (const auto& [rank, link] : joined.down) {
    link->send(words("go"));
  }
  return values;
}

}  // namespace trainyard::comm
