// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/interfaces.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include "base/text.h"

namespace trainyard::comm {
namespace {

// The bytes of an address, 4 or 16; empty when it is none. Without its scope ("%eth0").
std::string bytes_of(const std::string& text) {
  const std::string address = text.substr(0, text.find('%'));
  std::array<char, 16> bytes{};
  if (::inet_pton(AF_INET, address.c_str(), bytes.data()) == 1) {
    return {bytes.data(), 4};
  }
  if (::inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1) {
    return {bytes.data(), 16};
  }
  return {};
}

bool is_in_network(const std::string& address, const std::string& network, int prefix) {
  const std::string a = bytes_of(address);
  const std::string b = bytes_of(network);
  if (a.size() != b.size() || a.empty()) {
    return false;
  }
  for (int bit = 0; bit < prefix; ++bit) {
    const auto byte = static_cast<std::size_t>(bit / 8);
    const int mask = 0x80 >> (bit % 8);
    if (((a[byte] ^ b[byte]) & mask) != 0) {
      return false;
    }
  }
  return true;
}

bool needs_scope(const std::string& address) {
  return is_in_network(address, "fe80::", 10);
}

bool is_link_local(const std::string& address) {
  return is_in_network(address, "169.254.0.0", 16);
}

// Not the interface: a host may have an address on its loopback that others have a route to.
bool is_own_of_each_host(const std::string& address) {
  return is_in_network(address, "127.0.0.0", 8) || is_in_network(address, "::1", 128);
}

// One word of a choice, as a question about interfaces.
struct Pattern {
  std::string name;  // exact, or a prefix when `is_prefix`
  bool is_prefix = false;
  std::string network;  // set: by address instead of by name
  int bits = 0;

  bool matches(const Interface& interface) const {
    if (!network.empty()) {
      return is_in_network(interface.address, network, bits);
    }
    return is_prefix ? interface.name.starts_with(name) : interface.name == name;
  }
};

Result<Pattern> parse_pattern(std::string_view word) {
  Pattern pattern;
  const std::size_t slash = word.find('/');
  const std::string address(word.substr(0, slash));
  const std::size_t size = bytes_of(address).size();
  if (size > 0) {
    pattern.network = address;
    pattern.bits = static_cast<int>(8 * size);
    if (slash != std::string_view::npos) {
      const auto bits = parse_int(word.substr(slash + 1));
      if (!bits || *bits < 0 || *bits > pattern.bits) {
        return Error{Code::kInvalidArgument, fmt::format("\"{}\" is no network", word)};
      }
      pattern.bits = static_cast<int>(*bits);
    }
    return pattern;
  }
  pattern.is_prefix = word.ends_with('*');
  pattern.name = std::string(pattern.is_prefix ? word.substr(0, word.size() - 1) : word);
  if (word.empty() || pattern.name.find_first_of("*/^ ") != std::string::npos) {
    return Error{Code::kInvalidArgument,
                 fmt::format("\"{}\" is no interface: give a name, a name with * at its end, an "
                             "address or a network, several with commas, ^ before all to exclude "
                             "them",
                             word)};
  }
  return pattern;
}

Result<std::vector<Pattern>> parse_patterns(std::string_view words) {
  std::vector<Pattern> patterns;
  while (true) {
    const std::size_t comma = words.find(',');
    YARD_TRY(Pattern pattern, parse_pattern(trim(words.substr(0, comma))));
    patterns.push_back(std::move(pattern));
    if (comma == std::string_view::npos) {
      return patterns;
    }
    words.remove_prefix(comma + 1);
  }
}

std::string list_of(const std::vector<Interface>& interfaces) {
  std::string text;
  for (const Interface& one : interfaces) {
    text += fmt::format("{}{} {}/{}", text.empty() ? "" : ", ", one.name, one.address, one.prefix);
  }
  return text.empty() ? "none" : text;
}

int rank_of(const Interface& interface) {
  return (interface.is_loopback ? 4 : 0) + (is_link_local(interface.address) ? 2 : 0) +
         (interface.address.find(':') != std::string::npos ? 1 : 0);
}

std::vector<Interface> automatic(const std::vector<Interface>& interfaces, bool several_hosts) {
  std::vector<Interface> chosen;
  std::ranges::copy_if(interfaces, std::back_inserter(chosen), [&](const Interface& one) {
    return one.is_up && !one.is_loopback && !needs_scope(one.address);
  });
  if (chosen.empty() && !several_hosts) {
    std::ranges::copy_if(interfaces, std::back_inserter(chosen), [](const Interface& one) {
      return one.is_up && !needs_scope(one.address);
    });
  }
  std::ranges::stable_sort(chosen, {}, rank_of);
  return chosen;
}

Result<std::vector<Interface>> named(const std::vector<Interface>& interfaces,
                                     std::string_view choice, bool several_hosts) {
  YARD_TRY(const std::vector<Pattern> patterns, parse_patterns(choice));
  std::vector<Interface> chosen;
  for (const Pattern& pattern : patterns) {
    std::ranges::copy_if(interfaces, std::back_inserter(chosen),
                         [&](const Interface& one) { return one.is_up && pattern.matches(one); });
  }
  const auto removed = std::erase_if(chosen, [&](const Interface& one) {
    return several_hosts && is_own_of_each_host(one.address);
  });
  if (chosen.empty() && removed > 0) {
    return Error{Code::kNotFound,
                 fmt::format("\"{}\" is the loopback, by which a host reaches only itself; this "
                             "machine has: {}",
                             choice, list_of(interfaces))};
  }
  return chosen;
}

}  // namespace

Result<std::vector<Interface>> read_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return errno_error("list the network interfaces", errno);
  }
  std::vector<Interface> interfaces;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) {
      continue;
    }
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) {
      continue;
    }
    const auto raw = [family](const sockaddr* address) -> const void* {
      return family == AF_INET ? static_cast<const void*>(
                                     &reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
                               : &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    };
    std::array<char, INET6_ADDRSTRLEN> text{};
    ::inet_ntop(family, raw(one->ifa_addr), text.data(), text.size());
    int bits = family == AF_INET ? 32 : 128;
    if (one->ifa_netmask != nullptr) {
      const auto* mask = static_cast<const unsigned char*>(raw(one->ifa_netmask));
      const int bytes = bits / 8;
      bits = 0;
      for (int i = 0; i < bytes; ++i) {
        bits += __builtin_popcount(mask[i]);
      }
    }
    interfaces.push_back({.name = one->ifa_name,
                          .address = text.data(),
                          .prefix = bits,
                          .is_up = (one->ifa_flags & IFF_UP) != 0,
                          .is_loopback = (one->ifa_flags & IFF_LOOPBACK) != 0});
  }
  ::freeifaddrs(list);
  return interfaces;
}

Result<std::vector<std::string>> choose_addresses(const std::vector<Interface>& interfaces,
                                                  std::string_view choice, bool several_hosts) {
  std::vector<Interface> chosen;
  if (choice.empty()) {
    chosen = automatic(interfaces, several_hosts);
  } else if (choice.front() == '^') {
    YARD_TRY(const std::vector<Pattern> patterns, parse_patterns(choice.substr(1)));
    chosen = automatic(interfaces, several_hosts);
    std::erase_if(chosen, [&](const Interface& one) {
      return std::ranges::any_of(patterns, [&](const auto& p) { return p.matches(one); });
    });
  } else {
    YARD_TRY(chosen, named(interfaces, choice, several_hosts));
  }
  std::vector<std::string> addresses;
  for (const Interface& one : chosen) {
    std::string address = one.address + (needs_scope(one.address) ? "%" + one.name : "");
    if (std::ranges::find(addresses, address) == addresses.end()) {
      addresses.push_back(std::move(address));
    }
  }
  if (addresses.empty()) {
    return Error{Code::kNotFound,
                 choice.empty()
                     ? fmt::format("no network interface reaches other hosts; this machine has: {}",
                                   list_of(interfaces))
                     : fmt::format("no network interface is \"{}\"; this machine has: {}", choice,
                                   list_of(interfaces))};
  }
  return addresses;
}

std::vector<std::string> order_to_try(const std::vector<std::string>& of_peer,
                                      const std::vector<Interface>& own,
                                      const std::vector<std::string>& everyones) {
  const auto cost = [&](const std::string& address) {
    const auto is_same = [&](const Interface& one) {
      return one.address == address.substr(0, address.find('%'));
    };
    const auto is_near = [&](const Interface& one) {
      return is_in_network(address, one.address, one.prefix);
    };
    if (std::ranges::count(everyones, address) > 1 || std::ranges::any_of(own, is_same)) {
      return 2;
    }
    return std::ranges::any_of(own, is_near) ? 0 : 1;
  };
  std::vector<std::string> order = of_peer;
  std::ranges::stable_sort(order, {}, cost);
  return order;
}

}  // namespace trainyard::comm
