// SPDX-License-Identifier: Apache-2.0
#include "comm/health/facts.h"

#include <cstring>
#include <map>

#include <fmt/format.h>

namespace trainyard::comm {
namespace {

const Member& member_of(std::int32_t rank, const std::vector<Member>& members) {
  return members[static_cast<std::size_t>(rank)];
}

// Both ends of a heartbeat run the same version on the same kind of machine (frame.h checks).
template <typename T>
void put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
bool take(std::string_view& in, T& value) {
  if (in.size() < sizeof(value)) {
    return false;
  }
  std::memcpy(&value, in.data(), sizeof(value));
  in.remove_prefix(sizeof(value));
  return true;
}

}  // namespace

std::optional<Error> find_disagreement(const std::vector<RankProgress>& ranks,
                                       const std::vector<Member>& members) {
  struct Seen {
    std::int32_t rank;
    Signature signature;
  };
  std::map<std::uint64_t, Seen> first;
  for (const RankProgress& one : ranks) {
    for (const auto& [sequence, signature] : one.recent) {
      const auto [seen, is_new] = first.try_emplace(sequence, Seen{one.rank, signature});
      if (!is_new && seen->second.signature != signature) {
        return Error{Code::kConflict,
                     fmt::format("the ranks disagree: as operation {}, {} runs {}, but {} runs {}",
                                 sequence, describe(member_of(seen->second.rank, members)),
                                 to_string(seen->second.signature),
                                 describe(member_of(one.rank, members)), to_string(signature))};
      }
    }
  }
  return std::nullopt;
}

std::optional<Error> find_left_behind(const std::vector<RankProgress>& ranks,
                                      const std::vector<Member>& members) {
  for (const RankProgress& gone : ranks) {
    for (const RankProgress& other : ranks) {
      if (gone.has_left && !other.has_left && other.issued > gone.issued) {
        return Error{Code::kUnavailable,
                     fmt::format("{} is in operation {}, but {} left the world after operation {}",
                                 describe(member_of(other.rank, members)), other.issued,
                                 describe(member_of(gone.rank, members)), gone.issued)};
      }
    }
  }
  return std::nullopt;
}

std::string encode(const RankProgress& progress) {
  std::string text;
  put(text, progress.rank);
  put(text, progress.issued);
  put(text, progress.completed);
  put(text, static_cast<std::uint8_t>(progress.has_left));
  for (const auto& [sequence, signature] : progress.recent) {
    put(text, sequence);
    put(text, signature);
  }
  return text;
}

Result<RankProgress> decode_progress(std::string_view text) {
  RankProgress progress;
  std::uint8_t has_left = 0;
  bool is_whole = take(text, progress.rank) && take(text, progress.issued) &&
                  take(text, progress.completed) && take(text, has_left);
  progress.has_left = has_left != 0;
  while (is_whole && !text.empty()) {
    std::pair<std::uint64_t, Signature> one;
    is_whole = take(text, one.first) && take(text, one.second);
    progress.recent.push_back(one);
  }
  if (!is_whole) {
    return Error{Code::kCorrupt, "a heartbeat is cut short"};
  }
  return progress;
}

}  // namespace trainyard::comm
