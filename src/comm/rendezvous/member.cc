// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/member.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "comm/rendezvous/frame.h"

namespace trainyard::comm {
namespace {

constexpr std::size_t kFields = 8;  // and the addresses

// To be closed by a bracket.
std::string names_of(const Member& member) {
  return fmt::format("rank {} (pid {} on {}", member.rank, member.pid, member.host_name);
}

std::string key_of(std::string_view boot, const struct stat& place) {
  return fmt::format("{}/{}/{}", boot, place.st_dev, place.st_ino);
}

Result<struct stat> look_at(const std::string& place) {
  struct stat status {};
  if (::stat(place.c_str(), &status) != 0) {
    return errno_error("look at " + place, errno);
  }
  return status;
}

}  // namespace

std::string encode(const Member& member) {
  Fields fields = {
      std::to_string(member.rank), std::to_string(member.size), member.host_key, member.host_name,
      std::to_string(member.pid),  member.local_socket,         member.nonce,    member.network};
  fields.insert(fields.end(), member.addresses.begin(), member.addresses.end());
  return encode_frame(fields);
}

Result<Member> decode_member(std::string_view text) {
  FrameReader reader;
  reader.feed(text);
  YARD_TRY(const auto fields, reader.next());
  if (!fields || fields->size() < kFields) {
    return Error{Code::kCorrupt, "this is no rank's entry"};
  }
  YARD_TRY(const std::int64_t rank, parse_int((*fields)[0]));
  YARD_TRY(const std::int64_t size, parse_int((*fields)[1]));
  YARD_TRY(const std::int64_t pid, parse_int((*fields)[4]));
  return Member{.rank = static_cast<std::int32_t>(rank),
                .size = static_cast<std::int32_t>(size),
                .host_key = (*fields)[2],
                .host_name = (*fields)[3],
                .network = (*fields)[7],
                .pid = pid,
                .local_socket = (*fields)[5],
                .nonce = (*fields)[6],
                .addresses = {fields->begin() + kFields, fields->end()}};
}

Result<Machine> read_this_machine(const std::string& socket_folder) {
  YARD_TRY(const std::string boot, read_file("/proc/sys/kernel/random/boot_id"));
  YARD_TRY(const struct stat namespace_of_net, look_at("/proc/self/ns/net"));
  const std::string network = key_of(trim(boot), namespace_of_net);
  std::string host = network;
  if (!socket_folder.empty()) {
    YARD_TRY(const struct stat folder, look_at(socket_folder));
    host = key_of(trim(boot), folder);
  }
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) {
    return errno_error("read the host name", errno);
  }
  return Machine{.host_key = std::move(host), .network = network, .host_name = name.data()};
}

Hosts group(const std::vector<Member>& members) {
  Hosts hosts;
  std::vector<std::string_view> keys;
  for (const Member& member : members) {
    const auto found = std::ranges::find(keys, member.host_key);
    const auto index = static_cast<std::size_t>(found - keys.begin());
    if (found == keys.end()) {
      keys.emplace_back(member.host_key);
      hosts.ranks.emplace_back();
    }
    hosts.of_rank.push_back(static_cast<std::int32_t>(index));
    hosts.ranks[index].push_back(member.rank);
  }
  return hosts;
}

Result<void> check_hosts(const Hosts& hosts, const std::vector<Member>& members) {
  for (const auto& ranks : hosts.ranks) {
    if (ranks.size() > kMaxLocalRanks) {
      return Error{Code::kInvalidArgument,
                   fmt::format("host {} has {} ranks of this world, and shared memory is for at "
                               "most {}: use more hosts, or the transport tcp alone",
                               members[static_cast<std::size_t>(ranks.front())].host_name,
                               ranks.size(), kMaxLocalRanks)};
    }
  }
  return {};
}

std::string describe(const Member& member) {
  return names_of(member) + ")";
}

std::string describe_with_addresses(const Member& member) {
  constexpr std::size_t kShown = 3;
  std::string text = names_of(member);
  for (std::size_t i = 0; i < std::min(member.addresses.size(), kShown); ++i) {
    text += ", " + member.addresses[i];
  }
  return text + (member.addresses.size() > kShown ? ", ...)" : ")");
}

std::string list_ranks(const std::vector<std::int32_t>& ranks) {
  constexpr std::size_t kShown = 32;
  std::string text;
  const std::size_t shown = std::min(ranks.size(), kShown);
  for (std::size_t i = 0; i < shown; ++i) {
    const bool is_last = i + 1 == shown && shown == ranks.size();
    text += (i == 0 ? "" : is_last ? " and " : ", ") + std::to_string(ranks[i]);
  }
  if (shown < ranks.size()) {
    text += fmt::format(" and {} more", ranks.size() - shown);
  }
  return text;
}

}  // namespace trainyard::comm
