// SPDX-License-Identifier: Apache-2.0
#include "sandbox/loopback_plan.h"

#include <fmt/format.h>

#include "base/text.h"

namespace trainyard::sandbox {
namespace {

constexpr std::uint32_t kNetwork = 127U << 24 | 77U << 16;
constexpr int kNamedPorts = 4;  // those that PortRange has names for

}  // namespace

std::string PortRange::for_program() const {
  return fmt::format("{}-{}", first + kNamedPorts, last);
}

std::string to_string(const PortRange& range) {
  return fmt::format("{}-{}", range.first, range.last);
}

Result<PortRange> parse_ports(std::string_view text) {
  const std::size_t hyphen = text.find('-');
  const Result<std::int64_t> first = parse_int(text.substr(0, hyphen));
  const Result<std::int64_t> last =
      parse_int(hyphen == std::string_view::npos ? std::string_view() : text.substr(hyphen + 1));
  if (!first || !last || *first < 1 || *last > 65'535 || *last - *first < kNamedPorts) {
    return Error{Code::kInvalidArgument,
                 fmt::format("'{}' is no range of ports such as 12700-12799", text)};
  }
  return PortRange{.first = static_cast<std::uint16_t>(*first),
                   .last = static_cast<std::uint16_t>(*last)};
}

Ipv4Prefix subnet_of_block(int block) {
  return {.address = kNetwork | static_cast<std::uint32_t>(block) << 8, .length = 24};
}

int block_of(const Ipv4Prefix& subnet) {
  return static_cast<int>(subnet.address >> 8 & 255);
}

bool is_loopback(const Ipv4Prefix& subnet) {
  return subnet.address >> 24 == 127;
}

PortRange ports_of(const Ipv4Prefix& subnet) {
  const int first = kFirstPort + block_of(subnet) * kPortsInBlock;
  return {.first = static_cast<std::uint16_t>(first),
          .last = static_cast<std::uint16_t>(first + kPortsInBlock - 1)};
}

Result<NetworkPlan> plan_loopback(const NetworkRequest& request) {
  YARD_TRY(NetworkPlan plan, plan_network(request));
  if (request.subnet != subnet_of_block(block_of(request.subnet)) ||
      block_of(request.subnet) >= kBlocks) {
    return Error{Code::kInvalidArgument, fmt::format("{} is no network of a gang on the loopback",
                                                     to_string(request.subnet))};
  }
  if (request.isolated && request.instances > 1) {
    return Error{Code::kInvalidArgument,
                 fmt::format("EnableNetworkIsolation with {} instances needs a server that runs as "
                             "root: without it they share the machine's network. One instance "
                             "alone can be isolated",
                             request.instances)};
  }
  plan.bridge.clear();
  plan.create.clear();
  plan.remove.clear();
  plan.open_filter.clear();
  plan.close_filter.clear();
  for (InstanceLink& link : plan.instances) {
    link = {.network_namespace = {},
            .veth = {},
            .address = link.address,
            .create = {},
            .remove = {},
            .configure = {}};
  }
  return plan;
}

}  // namespace trainyard::sandbox
