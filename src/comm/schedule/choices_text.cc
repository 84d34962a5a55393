// SPDX-License-Identifier: Apache-2.0
// The table of choices as text, and the default one, which is kept in that form:
//
//   trainyard choices 1
//   all_reduce private 1 2 65536 direct_small 131072
//
// is: an all-reduce of private buffers (not windows) on 1 host with up to 2 ranks and of up to
// 65,536 bytes is direct_small, in pieces of up to 131,072 bytes. "any" has no bound. A line
//
//   mesh 16777216 134217728
//
// gives the scratch and the sort buffer of the mesh; the last one holds.
#include <array>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"
#include "comm/schedule/choose.h"

namespace trainyard::comm {
namespace {

constexpr std::string_view kTitle = "trainyard choices ";
constexpr std::string_view kVersion = "1";
constexpr std::string_view kFields =
    "operation, private or windows, hosts, ranks per host, bytes, algorithm, bytes of a piece";
constexpr std::uint64_t kLeastPiece = 256;
constexpr std::uint64_t kMostPiece = std::uint64_t{1} << 30;

// A guess from the figures that the design rests on: small messages in one hop, large ones by the
// algorithm that moves least; between hosts, fewer and larger pieces. A sweep does better.
constexpr std::string_view kDefault = R"(trainyard choices 1
barrier private 1 16 any direct 131072
barrier private any 1 any halving_doubling 131072
barrier private any any any two_level 131072
barrier private any any any halving_doubling 131072

all_reduce windows 1 any 16384 direct_small 131072
all_reduce windows 1 any any window 131072
all_reduce private 1 2 65536 direct_small 131072
all_reduce private 1 4 16384 direct_small 131072
all_reduce private 1 16 4096 direct_small 131072
all_reduce private 1 16 any direct 131072
all_reduce private 1 any 16384 halving_doubling 131072
all_reduce private 1 any any ring 131072
all_reduce private 4 1 16384 direct_small 262144
all_reduce private 16 1 16384 halving_doubling 262144
all_reduce private 16 1 8388608 direct 262144
all_reduce private any 1 65536 halving_doubling 262144
all_reduce private any 1 any ring 262144
all_reduce private any any any two_level 262144

reduce_scatter windows 1 any 16384 direct 131072
reduce_scatter windows 1 any any window 131072
reduce_scatter private 1 16 any direct 131072
reduce_scatter private 16 1 8388608 direct 262144
reduce_scatter private any 1 any ring 262144
reduce_scatter private any any any two_level 262144

all_gather windows 1 any 16384 direct 131072
all_gather windows 1 any any window 131072
all_gather private 1 any 65536 direct 131072
all_gather private 1 any 8388608 single_copy 131072
all_gather private 1 any any direct 131072
all_gather private 16 1 8388608 direct 262144
all_gather private any 1 any ring 262144
all_gather private any any any mesh 131072

broadcast windows 1 any 16384 direct_small 131072
broadcast windows 1 any any window 131072
broadcast private 1 any any direct_small 131072
broadcast private any any 65536 two_level 262144
broadcast private any any 65536 halving_doubling 262144
broadcast private any any any double_tree 262144

reduce windows 1 any 16384 direct_small 131072
reduce windows 1 any any window 131072
reduce private 1 16 16384 direct_small 131072
reduce private 1 16 any direct 131072
reduce private any any 65536 two_level 262144
reduce private any any 65536 halving_doubling 262144
reduce private any any any double_tree 262144

gather windows 1 any 16384 direct 131072
gather windows 1 any any window 131072
gather private 16 16 any direct 131072
gather private any any 4096 halving_doubling 131072
gather private any any any direct 262144

scatter windows 1 any 16384 direct 131072
scatter windows 1 any any window 131072
scatter private 1 16 65536 direct 131072
scatter private 1 16 8388608 single_copy 131072
scatter private 16 16 any direct 131072
scatter private any any 4096 halving_doubling 131072
scatter private any any any direct 262144

all_to_all windows 1 any 16384 direct 131072
all_to_all windows 1 any any window 131072
all_to_all private 1 any 65536 direct 131072
all_to_all private 1 any 8388608 single_copy 131072
all_to_all private 1 any any direct 131072
all_to_all private any any any direct 262144
)";

template <typename T>
std::string bound_text(T value, T any) {
  return value == any ? "any" : std::to_string(value);
}

template <typename T>
Result<T> parse_bound(std::string_view text, T any) {
  if (text == "any") {
    return any;
  }
  const auto value = parse_int(text);
  if (!value || *value < 0 ||
      static_cast<std::uint64_t>(*value) > static_cast<std::uint64_t>(any)) {
    return Error{Code::kInvalidArgument, fmt::format("\"{}\" is no bound, nor \"any\"", text)};
  }
  return static_cast<T>(*value);
}

Result<OpKind> parse_kind(std::string_view name) {
  for (int kind = 0; kind <= static_cast<int>(OpKind::kAllToAll); ++kind) {
    if (name == name_of(static_cast<OpKind>(kind))) {
      return static_cast<OpKind>(kind);
    }
  }
  return Error{Code::kInvalidArgument, fmt::format("\"{}\" is no operation", name)};
}

Result<std::uint64_t> parse_piece(std::string_view text) {
  const auto bytes = parse_int(text);
  if (!bytes || *bytes < static_cast<std::int64_t>(kLeastPiece) ||
      *bytes > static_cast<std::int64_t>(kMostPiece)) {
    return Error{Code::kInvalidArgument, fmt::format("a piece has {} to {} bytes, not \"{}\"",
                                                     kLeastPiece, kMostPiece, text)};
  }
  return static_cast<std::uint64_t>(*bytes);
}

// Whether some world has this algorithm for this kind.
bool exists(Algorithm algorithm, OpKind kind) {
  return is_available(algorithm, kind, {.size = 3, .host = {0, 0, 0}}) ||
         is_available(algorithm, kind, {.size = 3, .host = {0, 0, 1}});
}

Result<Rule> parse_rule(const std::vector<std::string_view>& fields) {
  if (fields.size() != 7) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{} fields instead of 7: {}", fields.size(), kFields)};
  }
  Rule rule{.windows = fields[1] == "windows"};
  if (!rule.windows && fields[1] != "private") {
    return Error{Code::kInvalidArgument,
                 fmt::format("\"{}\" is neither private nor windows", fields[1])};
  }
  YARD_TRY(rule.kind, parse_kind(fields[0]));
  YARD_TRY(rule.hosts, parse_bound(fields[2], Rule::kAnyRanks));
  YARD_TRY(rule.local, parse_bound(fields[3], Rule::kAnyRanks));
  YARD_TRY(rule.bytes, parse_bound(fields[4], Rule::kAnyBytes));
  YARD_TRY(rule.choice.algorithm, parse_algorithm(fields[5]));
  YARD_TRY(rule.choice.piece_bytes, parse_piece(fields[6]));
  if (!exists(rule.choice.algorithm, rule.kind)) {
    return Error{Code::kInvalidArgument, fmt::format("there is no {} by {}", fields[0], fields[5])};
  }
  return rule;
}

// `name`: how SageMaker's library calls it.
Result<std::uint64_t> parse_buffer(std::string_view text, std::string_view name) {
  const auto bytes = parse_int(text);
  if (!bytes || *bytes <= 0 || *bytes % static_cast<std::int64_t>(MeshBuffers::kUnit) != 0) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("a buffer of the mesh ({}) has \"{}\" bytes: it must be a multiple of {}", name,
                    text, MeshBuffers::kUnit)};
  }
  return static_cast<std::uint64_t>(*bytes);
}

Result<MeshBuffers> parse_mesh(const std::vector<std::string_view>& fields) {
  if (fields.size() != 3) {
    return Error{Code::kInvalidArgument, "mesh wants the bytes of its scratch and sort buffers"};
  }
  MeshBuffers mesh;
  YARD_TRY(mesh.scratch, parse_buffer(fields[1], "SMDDP_AG_SCRATCH_BUFFER_SIZE_BYTES"));
  YARD_TRY(mesh.sort, parse_buffer(fields[2], "SMDDP_AG_SORT_BUFFER_SIZE_BYTES"));
  return mesh;
}

Result<void> parse_line(std::string_view line, Choices& choices) {
  std::vector<std::string_view> fields = split(line, ' ');
  std::erase(fields, std::string_view());
  if (fields[0] == "mesh") {
    YARD_TRY(choices.mesh, parse_mesh(fields));
    return {};
  }
  YARD_TRY(const Rule rule, parse_rule(fields));
  choices.rules.push_back(rule);
  return {};
}

Result<void> check_title(std::string_view line) {
  if (!line.starts_with(kTitle)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("no table of choices: it begins with \"{}{}\"", kTitle, kVersion)};
  }
  const std::string_view version = trim(line.substr(kTitle.size()));
  if (version != kVersion) {
    return Error{Code::kUnimplemented,
                 fmt::format("the table of choices has version {}; this program reads version {}",
                             version, kVersion)};
  }
  return {};
}

}  // namespace

std::string to_string(const Choices& choices) {
  std::string text = fmt::format("{}{}\n# {}\n", kTitle, kVersion, kFields);
  if (choices.mesh != MeshBuffers{}) {
    text += fmt::format("mesh {} {}\n", choices.mesh.scratch, choices.mesh.sort);
  }
  for (const Rule& rule : choices.rules) {
    text += fmt::format(
        "{} {} {} {} {} {} {}\n", name_of(rule.kind), rule.windows ? "windows" : "private",
        bound_text(rule.hosts, Rule::kAnyRanks), bound_text(rule.local, Rule::kAnyRanks),
        bound_text(rule.bytes, Rule::kAnyBytes), name_of(rule.choice.algorithm),
        rule.choice.piece_bytes);
  }
  return text;
}

Result<Choices> parse_choices(std::string_view text) {
  const std::vector<std::string_view> lines = split(text, '\n');
  YARD_TRY(check_title(trim(lines[0])));
  Choices choices;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::string_view line = trim(lines[i].substr(0, lines[i].find('#')));
    if (line.empty()) {
      continue;
    }
    if (const auto read = parse_line(line, choices); !read) {
      return Error{read.error().code, fmt::format("line {}: {}", i + 1, read.error().message)};
    }
  }
  sort_rules(choices);
  return choices;
}

Choices default_choices() {
  auto choices = parse_choices(kDefault);
  YARD_CHECK(choices.has_value(), "the default choices can be read");
  return *std::move(choices);
}

}  // namespace trainyard::comm
