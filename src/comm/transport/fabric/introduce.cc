// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/fabric/introduce.h"

#include <algorithm>

#include <fmt/format.h>

#include "comm/rendezvous/frame.h"
#include "comm/transport/fabric/fabric_transport.h"
#include "comm/transport/fabric/tag.h"

namespace trainyard::comm {
namespace {

// Of what travels through the endpoints: headers, tags, credits, goodbyes.
constexpr const char* kVersion = "fabric 2";

std::string encode(const Introduction& introduction) {
  Fields fields = {kVersion, introduction.provider};
  if (introduction.own) {
    fields.emplace_back();
    fields.insert(fields.end(), introduction.own->begin(), introduction.own->end());
  } else {
    fields.push_back(introduction.own.error().message);
  }
  return encode_frame(fields);
}

Result<std::vector<std::string>> read_entry(const std::string& text, const std::string& provider) {
  FrameReader reader;
  reader.feed(text);
  YARD_TRY(const auto fields, reader.next());
  if (!fields || fields->size() < 3) {
    return Error{Code::kCorrupt, "it gave no address for libfabric"};
  }
  if ((*fields)[0] != kVersion || (*fields)[1] != provider) {
    return Error{Code::kConflict, fmt::format("it speaks {} over {}, this one {} over {}",
                                              (*fields)[0], (*fields)[1], kVersion, provider)};
  }
  if (!(*fields)[2].empty()) {
    return Error{Code::kUnavailable, (*fields)[2]};
  }
  return std::vector<std::string>(fields->begin() + 3, fields->end());
}

}  // namespace

std::string address_to_bind(const std::vector<DataAddress>& everyones, const Hosts& hosts,
                            std::size_t own) {
  const std::vector<std::string>& addresses = everyones[own].addresses;
  const auto is_own_alone = [&](const std::string& address) {
    for (std::size_t rank = 0; rank < everyones.size(); ++rank) {
      const bool is_elsewhere = hosts.of_rank[rank] != hosts.of_rank[own];
      if (is_elsewhere && std::ranges::find(everyones[rank].addresses, address) !=
                              everyones[rank].addresses.end()) {
        return false;
      }
    }
    return true;
  };
  const auto found = std::ranges::find_if(addresses, is_own_alone);
  return found != addresses.end() ? *found : addresses.empty() ? "" : addresses.front();
}

Result<void> check_receives(std::size_t held, const Hosts& hosts, std::int32_t own) {
  const auto host = hosts.of_rank[static_cast<std::size_t>(own)];
  const std::size_t peers =
      hosts.of_rank.size() - hosts.ranks[static_cast<std::size_t>(host)].size();
  if (peers * FabricTransport::kStandingReceives <= held) {
    return {};
  }
  return Error{Code::kExhausted,
               fmt::format("an endpoint of this provider holds {} receives, and {} ranks of other "
                           "hosts need {} each: it may have a setting for more (rx_size, "
                           "fi_info -e), or there are too many ranks for it",
                           held, peers, FabricTransport::kStandingReceives)};
}

Result<std::vector<std::vector<std::string>>> introduce(const Introduction& introduction,
                                                        const std::vector<Member>& members,
                                                        RendezvousStore& store,
                                                        std::chrono::milliseconds time) {
  const auto key = [&](std::int32_t rank) {
    return fmt::format("trainyard/{}/fabric/{}", introduction.world, rank);
  };
  YARD_TRY(store.claim(key(introduction.rank), encode(introduction)));
  if (!introduction.own) {
    return introduction.own.error();
  }
  std::vector<std::string> keys;
  keys.reserve(members.size());
  for (const Member& member : members) {
    keys.push_back(key(member.rank));
  }
  YARD_TRY(const std::vector<std::string> texts, store.wait_for(keys, time));
  std::vector<std::vector<std::string>> all;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    auto entry = read_entry(texts[rank], introduction.provider);
    if (!entry) {
      return Error{entry.error().code, fmt::format("{} cannot use libfabric with this one: {}",
                                                   describe(members[rank]), entry.error().message)};
    }
    all.push_back(std::move(*entry));
  }
  return all;
}

Result<std::vector<std::unique_ptr<FabricEndpoint>>> open_endpoints(const FabricWorld& world,
                                                                    const Joined& joined,
                                                                    RendezvousStore& store) {
  const auto own = static_cast<std::size_t>(world.rank);
  std::vector<std::unique_ptr<FabricEndpoint>> endpoints;
  const auto open_all = [&]() -> Result<std::vector<std::string>> {
    if (joined.members.size() > kMaxTagRanks) {
      return Error{Code::kInvalidArgument,
                   fmt::format("libfabric is for at most {} ranks here", kMaxTagRanks)};
    }
    YARD_TRY(const FabricProvider provider,
             FabricProvider::find(world.provider,
                                  address_to_bind(joined.data_addresses, joined.hosts, own),
                                  world.filter));
    std::vector<std::string> addresses;
    for (std::uint32_t channel = 0; channel < world.channels; ++channel) {
      YARD_TRY(auto endpoint, FabricEndpoint::open(provider, joined.members.size()));
      YARD_TRY(check_receives(endpoint->max_receives(), joined.hosts, world.rank));
      addresses.push_back(endpoint->address());
      endpoints.push_back(std::move(endpoint));
    }
    return addresses;
  };
  YARD_TRY(
      const auto all,
      introduce(
          {.world = world.name, .rank = world.rank, .provider = world.provider, .own = open_all()},
          joined.members, store, world.time));
  for (std::uint32_t channel = 0; channel < world.channels; ++channel) {
    std::vector<std::string> addresses;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank].size() != world.channels) {
        return Error{Code::kCorrupt,
                     fmt::format("{} gave {} addresses for libfabric instead of {}",
                                 describe(joined.members[rank]), all[rank].size(), world.channels)};
      }
      addresses.push_back(all[rank][channel]);
    }
    YARD_TRY(endpoints[channel]->add_peers(addresses));
  }
  return endpoints;
}

}  // namespace trainyard::comm
