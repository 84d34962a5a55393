// SPDX-License-Identifier: Apache-2.0
#include "comm/schedule/schedule.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace trainyard::comm {
namespace {

std::string_view name_of(Region region) {
  switch (region) {
    case Region::kInput:
      return "in";
    case Region::kOutput:
      return "out";
    case Region::kScratch:
      return "scratch";
  }
  return "?";
}

std::string to_string(const Slice& slice) {
  return fmt::format("{}[{}:{})", name_of(slice.region), slice.offset, slice.offset + slice.length);
}

std::string windows_of(const std::vector<std::int32_t>& ranks, Region region, const Step& step) {
  const std::uint64_t offset = step.remote ? step.remote->offset : 0;
  return fmt::format("{} of {}", to_string(Slice{region, offset, step.length}),
                     fmt::join(ranks, " "));
}

std::string operands_of(const Step& step) {
  std::vector<std::string> operands;
  if (step.own) {
    operands.push_back(to_string(*step.own));
  }
  if (!step.from.empty()) {
    operands.push_back(
        fmt::format("{} of {}", step.token ? "token" : "message", fmt::join(step.from, " ")));
  }
  if (!step.read.empty()) {
    operands.push_back(windows_of(step.read, Region::kInput, step));
  }
  if (operands.empty() && step.token) {
    return "token";
  }
  return fmt::format("{}", fmt::join(operands, " + "));
}

std::string to_string(const Step& step) {
  std::vector<std::string> targets;
  if (step.store) {
    targets.push_back(to_string(*step.store));
  }
  if (!step.write.empty()) {
    targets.push_back(windows_of(step.write, Region::kOutput, step));
  }
  std::string text;
  if (!targets.empty()) {
    text = fmt::format("{} = ", fmt::join(targets, ", "));
  }
  text += operands_of(step);
  if (step.finish) {
    text += ", final";
  }
  if (!step.to.empty()) {
    text += fmt::format(" -> {}", fmt::join(step.to, " "));
  }
  return text;
}

}  // namespace

Slice piece_of(const Slice& slice, std::uint64_t k, std::uint64_t pieces) {
  // length * k may not fit into 64 bits: whole pieces and the rest apart.
  const std::uint64_t whole = slice.length / pieces;
  const std::uint64_t rest = slice.length % pieces;
  const auto begin_of = [&](std::uint64_t piece) { return whole * piece + rest * piece / pieces; };
  return {slice.region, slice.offset + begin_of(k), begin_of(k + 1) - begin_of(k)};
}

Slice part_of(Region region, std::uint64_t count, std::uint64_t parts, std::uint64_t index) {
  const std::uint64_t longer = count % parts;
  return {region, count / parts * index + std::min(index, longer),
          count / parts + (index < longer ? 1 : 0)};
}

std::string to_string(const Schedule& schedule) {
  std::string text;
  for (const Step& step : schedule.steps) {
    text += fmt::format("L{} {}: {}\n", step.level, schedule.algorithm, to_string(step));
  }
  return text;
}

}  // namespace trainyard::comm
