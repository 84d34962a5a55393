// SPDX-License-Identifier: Apache-2.0
// Communicator::create(): joins the ranks, and puts each one's parts together.
#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/text.h"
#include "comm/communicator.h"
#include "comm/health/dump.h"
#include "comm/health/standing.h"
#include "comm/health/watchdog.h"
#include "comm/rendezvous/interfaces.h"
#include "comm/rendezvous/join.h"
#include "comm/run/parts.h"
#include "comm/transport/fabric/fabric_transport.h"
#include "comm/transport/fabric/introduce.h"
#include "comm/transport/router.h"
#include "comm/transport/shm/heap.h"
#include "comm/transport/shm/shm_transport.h"
#include "comm/transport/tcp/tcp_transport.h"

namespace trainyard::comm {
namespace {

// Of a communicator's transports: the collectives', and that of sends and receives.
constexpr std::uint32_t kChannels = 2;
constexpr std::chrono::milliseconds kCalibration{5};

// What lives as long as the transports. The watchdog ends first: with it this rank leaves.
struct Memory {
  std::vector<std::shared_ptr<const Segment>> segments;
  HeapRegistry heaps;
  std::unique_ptr<Acceptor> acceptor;
};

class WatchedBoard;

// How those find the board who may come after its end: buffers, and the fault's messenger.
struct Slot {
  Mutex mutex;
  WatchedBoard* board GUARDED_BY(mutex) = nullptr;
};

// The face that the queue writes to; owns the watchdog, so that leaving comes first when the parts
// of a communicator end.
class WatchedBoard final : public ProgressBoard {
 public:
  WatchedBoard(std::unique_ptr<Standing> standing, WatchdogParts parts, Fault& fault,
               std::shared_ptr<Slot> slot)
      : standing_(std::move(standing)), fault_(fault), slot_(std::move(slot)) {
    parts.progress_of = [this](std::int32_t rank) { return standing_->of(rank); };
    parts.fault_of = [this](std::int32_t rank) { return standing_->fault_of(rank); };
    parts.show = [this](const Error& error) { standing_->show(error); };
    watchdog_ = std::make_unique<Watchdog>(std::move(parts), fault);
    const MutexLock lock(slot_->mutex);
    slot_->board = this;
  }
  // After a fault nobody is told that this rank left in order: the fault is what they need.
  ~WatchedBoard() override {
    if (!fault_.is_raised()) {
      standing_->leave();
    }
    watchdog_->leave();  // its thread may still ask the slot
    const MutexLock lock(slot_->mutex);
    slot_->board = nullptr;
  }
  WatchedBoard(const WatchedBoard&) = delete;
  WatchedBoard& operator=(const WatchedBoard&) = delete;

  void note_issued(std::uint64_t sequence, const Signature& signature) override {
    standing_->note_issued(sequence, signature);
  }
  void note_started(std::uint64_t sequence) override { standing_->note_started(sequence); }
  void note_completed(std::uint64_t sequence) override { standing_->note_completed(sequence); }
  std::optional<std::uint64_t> last_issued(std::int32_t rank) const override {
    return standing_->last_issued(rank);
  }
  bool has_left(std::int32_t rank) const override { return standing_->has_left(rank); }
  Watchdog& watchdog() { return *watchdog_; }

 private:
  std::unique_ptr<Standing> standing_;
  Fault& fault_;
  std::shared_ptr<Slot> slot_;
  std::unique_ptr<Watchdog> watchdog_;
};

bool allows(const CommunicatorOptions& options, const std::string& transport) {
  return options.transports.empty() ||
         std::ranges::find(options.transports, transport) != options.transports.end();
}

Result<std::vector<Fd>> make_segments(std::int32_t local_size) {
  std::vector<Fd> fds;
  for (std::uint32_t channel = 0; channel < kChannels; ++channel) {
    YARD_TRY(const Segment segment,
             Segment::create(default_shape(static_cast<std::uint32_t>(local_size))));
    Fd fd(::fcntl(segment.fd(), F_DUPFD_CLOEXEC, 0));
    if (!fd.is_open()) {
      return errno_error("duplicate a descriptor", errno);
    }
    fds.push_back(std::move(fd));
  }
  return fds;
}

// What rank 0 gives to all: the provider of libfabric, how long to sweep, then the table.
std::string settings_of(const CommunicatorOptions& options) {
  std::string table = options.table.empty() ? to_string(default_choices()) : options.table;
  if (options.mesh_scratch != 0 || options.mesh_sort != 0) {
    const auto choices = parse_choices(table);  // what is wrong with it, all ranks say later
    const MeshBuffers mesh = choices ? choices->mesh : MeshBuffers{};
    table += fmt::format("\nmesh {} {}\n",
                         options.mesh_scratch != 0 ? options.mesh_scratch : mesh.scratch,
                         options.mesh_sort != 0 ? options.mesh_sort : mesh.sort);
  }
  const std::string_view fabric =
      std::string_view(options.fabric).substr(0, options.fabric.find('\n'));
  return fmt::format("fabric {}\nsweep {}\n{}", trim(fabric), options.sweep.count(), table);
}

struct Given {
  std::string_view fabric;  // empty: TCP between hosts
  std::chrono::milliseconds sweep = {};
  std::string_view table;
};

// What follows `word` in the first line of `text`, which is taken off.
Result<std::string_view> take_line(std::string_view& text, std::string_view word) {
  const std::size_t end = text.find('\n');
  if (!text.starts_with(word) || end == std::string_view::npos) {
    return Error{Code::kCorrupt, "rank 0 gave settings that this version cannot read"};
  }
  const std::string_view value = text.substr(word.size(), end - word.size());
  text.remove_prefix(end + 1);
  return value;
}

Result<Given> given_by(std::string_view settings) {
  YARD_TRY(const std::string_view fabric, take_line(settings, "fabric "));
  YARD_TRY(const std::string_view time, take_line(settings, "sweep "));
  YARD_TRY(const std::int64_t sweep, parse_int(time));
  return Given{.fabric = fabric, .sweep = std::chrono::milliseconds(sweep), .table = settings};
}

class Assembly {
 public:
  Assembly(const CommunicatorOptions& options, Joined joined, RendezvousStore& store)
      : options_(options),
        store_(store),
        joined_(std::move(joined)),
        rank_(static_cast<std::size_t>(options.rank)) {
    parts_.fault = std::make_unique<Fault>();
    parts_.memory = memory_;
  }

  Result<std::unique_ptr<Communicator>> run();

 private:
  const std::vector<std::int32_t>& local() const {
    return joined_.hosts.ranks[static_cast<std::size_t>(joined_.hosts.of_rank[rank_])];
  }
  Result<std::unique_ptr<Transport>> make_transport(std::uint32_t channel);
  Result<std::unique_ptr<Transport>> make_near(std::uint32_t channel);
  std::unique_ptr<Transport> make_far(std::uint32_t channel);
  std::unique_ptr<Transport> make_fabric(std::uint32_t channel);
  std::vector<std::string> names() const;
  std::string transports() const;
  Result<void> make_recorders();
  std::shared_ptr<WatchedBoard> make_board();

  const CommunicatorOptions& options_;
  RendezvousStore& store_;
  Joined joined_;
  std::size_t rank_;
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  Communicator::Parts parts_;
  std::shared_ptr<Slot> slot_ = std::make_shared<Slot>();
  std::vector<ShmTransport*> near_;                         // to calibrate
  std::vector<std::unique_ptr<FabricEndpoint>> endpoints_;  // by channel; none: TCP between hosts
  std::vector<FabricTransport*> fabric_;                    // to forget the names of
};

Result<std::unique_ptr<Transport>> Assembly::make_near(std::uint32_t channel) {
  YARD_TRY(Segment segment, Segment::map(std::move(joined_.segments[channel])));
  memory_->segments.push_back(std::make_shared<const Segment>(std::move(segment)));
  const auto index = std::ranges::find(local(), options_.rank) - local().begin();
  YARD_TRY(auto transport, ShmTransport::create(memory_->segments.back(),
                                                {.index = static_cast<std::uint32_t>(index),
                                                 .ranks = local(),
                                                 .shares_cores = false},
                                                *parts_.fault, memory_->heaps));
  near_.push_back(transport.get());
  return std::unique_ptr<Transport>(std::move(transport));
}

std::unique_ptr<Transport> Assembly::make_far(std::uint32_t channel) {
  TcpOptions options;
  options.rank = options_.rank;
  options.channel = channel;
  options.secret = joined_.secret;
  std::vector<std::string> everyones;
  for (const DataAddress& one : joined_.data_addresses) {
    everyones.insert(everyones.end(), one.addresses.begin(), one.addresses.end());
  }
  const auto own = read_interfaces();
  for (const DataAddress& one : joined_.data_addresses) {
    options.peers.push_back(
        {.port = one.port,
         .addresses = own ? order_to_try(one.addresses, *own, everyones) : one.addresses});
  }
  options.names = names();
  return std::make_unique<TcpTransport>(std::move(options), *memory_->acceptor, *parts_.fault);
}

std::unique_ptr<Transport> Assembly::make_fabric(std::uint32_t channel) {
  auto transport = std::make_unique<FabricTransport>(
      FabricOptions{.rank = options_.rank, .secret = joined_.secret, .names = names()},
      std::move(endpoints_[channel]), *parts_.fault);
  fabric_.push_back(transport.get());
  return transport;
}

std::vector<std::string> Assembly::names() const {
  std::vector<std::string> names;
  names.reserve(joined_.members.size());
  for (const Member& member : joined_.members) {
    names.push_back(describe(member));
  }
  return names;
}

Result<std::unique_ptr<Transport>> Assembly::make_transport(std::uint32_t channel) {
  const bool has_near = !joined_.segments.empty();
  const bool has_far = joined_.hosts.ranks.size() > 1;
  std::unique_ptr<Transport> near;
  std::unique_ptr<Transport> far;
  if (has_near) {
    YARD_TRY(near, make_near(channel));
  }
  if (has_far) {
    far = endpoints_.empty() ? make_far(channel) : make_fabric(channel);
  }
  if (!has_near) {
    return far;
  }
  if (!has_far) {
    return near;
  }
  std::vector<bool> is_near;
  for (const std::int32_t host : joined_.hosts.of_rank) {
    is_near.push_back(host == joined_.hosts.of_rank[rank_]);
  }
  return std::unique_ptr<Transport>(
      std::make_unique<Router>(std::move(near), std::move(far), std::move(is_near)));
}

// "shm,tcp" of a rank that has peers on its host and elsewhere.
std::string Assembly::transports() const {
  std::string near = joined_.segments.empty() ? "" : "shm";
  if (joined_.hosts.ranks.size() == 1) {
    return near;
  }
  return near + (near.empty() ? "" : ",") + (endpoints_.empty() ? "tcp" : "fabric");
}

// Nobody's training fails because nobody can look on.
Result<void> Assembly::make_recorders() {
  const Path place(options_.status);
  auto shown = Recorder::create(options_.name, options_.rank, place.empty() ? nullptr : &place);
  if (!shown && !place.empty()) {
    log_warning(shown.error()
                    .in(fmt::format("comm: '{}' shows nobody how far it is", options_.name))
                    .message);
    shown = Recorder::create(options_.name, options_.rank, nullptr);
  }
  YARD_TRY(parts_.recorder, std::move(shown));
  YARD_TRY(parts_.point_to_point_recorder,
           Recorder::create(options_.name + ".p2p", options_.rank, nullptr));
  parts_.dump = [dump = FlightDump{.name = options_.name,
                                   .rank = options_.rank,
                                   .folder = place,
                                   .transports = transports()}](const std::optional<Error>& fault,
                                                                const std::string& record) {
    dump.write(fault, record);
  };
  return {};
}

std::shared_ptr<WatchedBoard> Assembly::make_board() {
  WatchdogParts parts;
  parts.rank = options_.rank;
  parts.members = joined_.members;
  parts.hosts = joined_.hosts;
  parts.up = std::move(joined_.up);
  parts.down = std::move(joined_.down);
  parts.map = [memory = memory_](std::int32_t owner, std::uint64_t id, std::uint64_t, Fd fd) {
    return memory->heaps.add_peers(owner, id, std::move(fd));
  };
  parts.unmap = [memory = memory_](std::int32_t owner, std::uint64_t id) {
    memory->heaps.forget_peers(owner, id);
  };
  auto standing = std::make_unique<Standing>(
      memory_->segments.empty() ? nullptr : memory_->segments.front(), local(), options_.rank);
  return std::make_shared<WatchedBoard>(std::move(standing), std::move(parts), *parts_.fault,
                                        slot_);
}

// A buffer ends with its last reference, maybe after the communicator: then nobody has to be told.
Result<std::shared_ptr<std::byte[]>> allocate(std::size_t bytes,
                                              const std::shared_ptr<Memory>& memory,
                                              Watchdog& watchdog, const std::shared_ptr<Slot>& slot,
                                              std::chrono::milliseconds time) {
  YARD_TRY(const HeapRegistry::Made made, memory->heaps.make(bytes));
  const Result<void> shared = watchdog.share(made.heap, bytes, made.fd, time);
  if (!shared) {
    memory->heaps.forget(made.heap);
    return shared.error();
  }
  std::byte* data = made.memory->bytes().data();
  return std::shared_ptr<std::byte[]>(
      data, [heap = made.heap, keep = made.memory, memory, slot](std::byte*) {
        memory->heaps.forget(heap);
        const MutexLock lock(slot->mutex);
        if (slot->board != nullptr) {
          slot->board->watchdog().unshare(heap);
        }
      });
}

Result<std::unique_ptr<Communicator>> Assembly::run() {
  YARD_TRY(const Given given, given_by(joined_.settings));
  if (joined_.data.fd.is_open() && given.fabric.empty()) {
    memory_->acceptor =
        std::make_unique<Acceptor>(std::move(joined_.data), joined_.secret, options_.rank);
  } else if (joined_.data.fd.is_open()) {
    YARD_TRY(endpoints_, open_endpoints({.name = options_.name,
                                         .rank = options_.rank,
                                         .provider = std::string(given.fabric),
                                         .filter = options_.fabric_filter,
                                         .channels = kChannels,
                                         .time = options_.join_timeout},
                                        joined_, store_));
  }
  parts_.name = options_.name;
  parts_.timeout = options_.timeout;
  parts_.world = {.rank = options_.rank, .size = options_.size, .host = joined_.hosts.of_rank};
  YARD_TRY(parts_.choices, parse_choices(given.table));
  YARD_TRY(make_recorders());
  YARD_TRY(parts_.collectives, make_transport(0));
  YARD_TRY(parts_.point_to_point, make_transport(1));
  YARD_TRY(const auto least, meet(joined_, options_,
                                  {parts_.collectives->max_message(), parts_.collectives->room()}));
  parts_.limits = {
      .max_message = least[0], .room = least[1], .message_cost = Transport::kMessageCost};
  for (ShmTransport* near : near_) {
    near->calibrate(kCalibration);
  }
  for (FabricTransport* fabric : fabric_) {
    fabric->forget_names();
  }
  const bool is_one_host = joined_.hosts.ranks.size() == 1;
  auto board = make_board();
  Watchdog& watchdog = board->watchdog();
  parts_.spread = [slot = slot_](const Error&) {
    const MutexLock lock(slot->mutex);
    if (slot->board != nullptr) {
      slot->board->watchdog().spread();
    }
  };
  if (!memory_->segments.empty() && is_one_host) {
    parts_.allocate = [memory = memory_, slot = slot_, raw = board.get(),
                       time = options_.timeout](std::size_t bytes) {
      return allocate(bytes, memory, raw->watchdog(), slot, time);
    };
  }
  parts_.board = std::move(board);  // nobody else's: it ends before what its thread refers to
  auto communicator = Communicator::from_parts(std::move(parts_));
  watchdog.start();
  if (given.sweep.count() > 0) {
    YARD_TRY(communicator->sweep(given.sweep));
  }
  return communicator;
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(const CommunicatorOptions& options,
                                                           RendezvousStore& store) {
  CommunicatorOptions own = options;
  if (!allows(own, "shm")) {
    own.host = fmt::format("rank {}", own.rank);  // everyone on a host of its own
  }
  YARD_TRY(Joined joined, join(own, store, make_segments, settings_of(own)));
  YARD_TRY(const Given given, given_by(joined.settings));
  if (joined.hosts.ranks.size() > 1 && !allows(own, given.fabric.empty() ? "tcp" : "fabric")) {
    return Error{Code::kInvalidArgument,
                 given.fabric.empty()
                     ? "the ranks are on several hosts, and TCP is not among the transports "
                       "allowed, and no provider of libfabric is named (TRAINYARD_COMM_FABRIC)"
                     : "the ranks are on several hosts, rank 0 names a provider of libfabric, and "
                       "\"fabric\" is not among the transports allowed"};
  }
  return Assembly(own, std::move(joined), store).run();
}

}  // namespace trainyard::comm
