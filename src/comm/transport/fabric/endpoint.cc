// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/fabric/endpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "comm/transport/fabric/regions.h"
#include "comm/transport/fabric/signal_keeper.h"

namespace trainyard::comm {
namespace {

using std::chrono::microseconds;

static_assert(sizeof(FabricRequest::context) >= sizeof(fi_context2));

constexpr std::size_t kCompletions = 1024;
constexpr std::size_t kPollBatch = 16;
// A provider without a descriptor to sleep on is looked at so often; one with it moves its own
// connections on only when it is looked at, too.
constexpr microseconds kNap{100};
constexpr microseconds kLongNap{5000};

// Any of libfabric's objects: each begins with what closes it.
template <typename Object>
struct Closer {
  void operator()(Object* object) const { fi_close(&object->fid); }
};
template <typename Object>
using Handle = std::unique_ptr<Object, Closer<Object>>;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

}  // namespace

struct FabricEndpoint::State {
  State(const FabricProvider& found, std::string name)
      : provider(found), region(std::move(name)), info(provider.info(region)) {}
  // Memory may be given back once no object of libfabric's knows it.
  ~State() {
    endpoint.reset();
    queue.reset();
    addresses.reset();
    registrations.clear();
    domain.reset();
    fabric.reset();
    remove_region();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Result<void> open(std::size_t count);
  Result<void> open_queue(std::size_t size);
  Result<void> learn_address();
  void remove_region() {
    if (!region.empty()) {
      comm::remove_region(std::exchange(region, {}));
    }
  }
  Error failed(std::string_view what, long code) const {
    return {Code::kUnavailable,
            fmt::format("libfabric {}, provider {}: {}: {}", provider.library().version(),
                        provider.name(), what, provider.library().text_of(code))};
  }

  FabricProvider provider;
  std::string region;  // a name in the file system
  FabricInfo info;
  std::string address;
  std::vector<fi_addr_t> peers;
  int wait_fd = -1;  // of the queue, while it lives

  std::vector<std::unique_ptr<std::byte, Free>> memory;
  Handle<fid_fabric> fabric;
  Handle<fid_domain> domain;
  std::vector<Handle<fid_mr>> registrations;
  Handle<fid_av> addresses;
  Handle<fid_cq> queue;
  Handle<fid_ep> endpoint;
};

Result<void> FabricEndpoint::State::open(std::size_t count) {
  const auto take = [this](int code, auto* raw, auto& handle,
                           std::string_view what) -> Result<void> {
    if (code != 0) {
      return failed(what, code);
    }
    handle.reset(raw);
    return {};
  };
  fid_fabric* raw_fabric = nullptr;
  int code = provider.library().open(info->fabric_attr, &raw_fabric);
  YARD_TRY(take(code, raw_fabric, fabric, "open the fabric"));
  fid_domain* raw_domain = nullptr;
  code = fi_domain(fabric.get(), info.get(), &raw_domain, nullptr);
  YARD_TRY(take(code, raw_domain, domain, "open the domain"));
  fi_av_attr table{};
  table.type = FI_AV_TABLE;
  table.count = count;
  fid_av* raw_addresses = nullptr;
  code = fi_av_open(domain.get(), &table, &raw_addresses, nullptr);
  YARD_TRY(take(code, raw_addresses, addresses, "make an address vector"));
  YARD_TRY(open_queue(std::max(kCompletions, info->tx_attr->size + info->rx_attr->size)));
  fid_ep* raw_endpoint = nullptr;
  code = fi_endpoint(domain.get(), info.get(), &raw_endpoint, nullptr);
  YARD_TRY(take(code, raw_endpoint, endpoint, "make an endpoint"));
  if (code = fi_ep_bind(endpoint.get(), &addresses->fid, 0); code != 0) {
    return failed("bind the addresses", code);
  }
  if (code = fi_ep_bind(endpoint.get(), &queue->fid, FI_TRANSMIT | FI_RECV); code != 0) {
    return failed("bind the completions", code);
  }
  if (code = fi_enable(endpoint.get()); code != 0) {
    return failed("enable the endpoint", code);
  }
  return learn_address();
}

Result<void> FabricEndpoint::State::open_queue(std::size_t size) {
  fi_cq_attr attributes{};
  attributes.size = size;
  attributes.format = FI_CQ_FORMAT_MSG;
  attributes.wait_obj = FI_WAIT_FD;
  fid_cq* raw = nullptr;
  int code = fi_cq_open(domain.get(), &attributes, &raw, nullptr);
  if (code == 0) {
    queue.reset(raw);
    if (fi_control(&queue->fid, FI_GETWAIT, &wait_fd) != 0) {
      wait_fd = -1;
    }
    return {};
  }
  attributes.wait_obj = FI_WAIT_NONE;
  code = fi_cq_open(domain.get(), &attributes, &raw, nullptr);
  if (code != 0) {
    return failed("make a completion queue", code);
  }
  queue.reset(raw);
  return {};
}

Result<void> FabricEndpoint::State::learn_address() {
  std::size_t size = 0;
  fi_getname(&endpoint->fid, nullptr, &size);  // fails, and gives the size
  address.resize(size);
  const int code = fi_getname(&endpoint->fid, address.data(), &size);
  if (code != 0) {
    return failed("read the address of the endpoint", code);
  }
  address.resize(size);
  return {};
}

FabricEndpoint::FabricEndpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}

FabricEndpoint::~FabricEndpoint() = default;

Result<std::unique_ptr<FabricEndpoint>> FabricEndpoint::open(const FabricProvider& provider,
                                                             std::size_t peers) {
  const SignalKeeper signals;
  std::string region;
  if (provider.has_names()) {
    YARD_TRY(region, new_region_name());
  }
  auto state = std::make_unique<State>(provider, std::move(region));
  YARD_TRY(state->open(peers));
  return std::make_unique<FabricEndpoint>(std::move(state));
}

const std::string& FabricEndpoint::address() const {
  return state_->address;
}

Result<void> FabricEndpoint::add_peers(const std::vector<std::string>& addresses) {
  for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
    fi_addr_t peer = FI_ADDR_NOTAVAIL;
    const int count =
        fi_av_insert(state_->addresses.get(), addresses[rank].data(), 1, &peer, 0, nullptr);
    if (count != 1) {
      return state_->failed(fmt::format("take the address of rank {}", rank),
                            count < 0 ? count : -FI_EINVAL);
    }
    state_->peers.push_back(peer);
  }
  return {};
}

void FabricEndpoint::forget_names() {
  state_->remove_region();
}

std::size_t FabricEndpoint::max_message() const {
  return state_->info->ep_attr->max_msg_size;
}

std::size_t FabricEndpoint::max_receives() const {
  return state_->info->rx_attr->size;
}

Result<FabricMemory> FabricEndpoint::allocate(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t size = (bytes + kPage - 1) / kPage * kPage;
  std::unique_ptr<std::byte, Free> memory(static_cast<std::byte*>(std::aligned_alloc(kPage, size)));
  if (memory == nullptr) {
    return Error{Code::kExhausted, "there is no memory for messages"};
  }
  FabricMemory made{.bytes = {memory.get(), size}, .description = nullptr};
  state_->memory.push_back(std::move(memory));
  if ((state_->info->domain_attr->mr_mode & FI_MR_LOCAL) != 0) {
    fid_mr* raw = nullptr;
    const int code = fi_mr_reg(state_->domain.get(), made.bytes.data(), size, FI_SEND | FI_RECV, 0,
                               state_->registrations.size() + 1, 0, &raw, nullptr);
    if (code != 0) {
      return state_->failed(fmt::format("register {} bytes (is \"ulimit -l\" large enough?)", size),
                            code);
    }
    state_->registrations.emplace_back(raw);
    made.description = fi_mr_desc(raw);
  }
  return made;
}

Result<bool> FabricEndpoint::try_send(std::int32_t peer, std::uint64_t tag,
                                      const FabricMemory& memory, FabricRequest& request) {
  const ssize_t code =
      fi_tsend(state_->endpoint.get(), memory.bytes.data(), memory.bytes.size(), memory.description,
               state_->peers[static_cast<std::size_t>(peer)], tag, &request.context);
  if (code != 0 && code != -FI_EAGAIN) {
    return state_->failed("send", code);
  }
  return code == 0;
}

Result<bool> FabricEndpoint::try_receive(std::uint64_t tag, const FabricMemory& memory,
                                         FabricRequest& request) {
  const ssize_t code = fi_trecv(state_->endpoint.get(), memory.bytes.data(), memory.bytes.size(),
                                memory.description, FI_ADDR_UNSPEC, tag, 0, &request.context);
  if (code != 0 && code != -FI_EAGAIN) {
    return state_->failed("receive", code);
  }
  return code == 0;
}

Result<void> FabricEndpoint::poll(std::vector<Completion>& completions) {
  std::array<fi_cq_msg_entry, kPollBatch> entries{};
  while (true) {
    const ssize_t count = fi_cq_read(state_->queue.get(), entries.data(), entries.size());
    if (count == -FI_EAGAIN || count == 0) {
      return {};
    }
    if (count == -FI_EAVAIL) {
      fi_cq_err_entry failure{};
      if (fi_cq_readerr(state_->queue.get(), &failure, 0) == 1) {
        completions.push_back({.request = static_cast<FabricRequest*>(failure.op_context),
                               .bytes = failure.len,
                               .error = state_->provider.library().text_of(failure.err)});
      }
      continue;
    }
    if (count < 0) {
      return state_->failed("read completions", count);
    }
    for (ssize_t i = 0; i < count; ++i) {
      const fi_cq_msg_entry& entry = entries[static_cast<std::size_t>(i)];
      completions.push_back(
          {.request = static_cast<FabricRequest*>(entry.op_context), .bytes = entry.len});
    }
    if (static_cast<std::size_t>(count) < entries.size()) {
      return {};
    }
  }
}

void FabricEndpoint::wait(int fd, microseconds limit) {
  std::array<pollfd, 2> entries = {{{.fd = fd, .events = POLLIN, .revents = 0},
                                    {.fd = state_->wait_fd, .events = POLLIN, .revents = 0}}};
  if (state_->wait_fd >= 0) {
    fid* queue = &state_->queue->fid;
    if (fi_trywait(state_->fabric.get(), &queue, 1) != FI_SUCCESS) {
      return;  // something is there
    }
  }
  const microseconds most = std::min(limit, state_->wait_fd >= 0 ? kLongNap : kNap);
  const timespec time{.tv_sec = 0, .tv_nsec = static_cast<long>(most.count()) * 1000};
  ::ppoll(entries.data(), entries.size(), &time, nullptr);
}

}  // namespace trainyard::comm
