// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/efa.h"

#include <algorithm>
#include <array>
#include <utility>

namespace trainyard::instance {
namespace {

// Amazon EC2 User Guide, "Elastic Fabric Adapter": supported instance types, and those whose
// adapters can read and write remotely. One family per line, with the sizes that have an adapter;
// "*" is every size.
struct Family {
  std::string_view name;
  EfaKind kind;
  std::array<std::string_view, 6> sizes;
};
constexpr std::array<Family, 24> kFamilies = {{
    {"p3dn", EfaKind::kPlain, {"24xlarge"}},
    {"p4d", EfaKind::kRdma, {"24xlarge"}},
    {"p4de", EfaKind::kRdma, {"24xlarge"}},
    {"p5", EfaKind::kRdma, {"*"}},
    {"p5e", EfaKind::kRdma, {"48xlarge"}},
    {"p5en", EfaKind::kRdma, {"48xlarge"}},
    {"p6-b200", EfaKind::kRdma, {"48xlarge"}},
    {"p6-b300", EfaKind::kRdma, {"48xlarge"}},
    {"p6e-gb200", EfaKind::kRdma, {"36xlarge"}},
    {"trn1", EfaKind::kRdma, {"32xlarge"}},
    {"trn1n", EfaKind::kRdma, {"32xlarge"}},
    {"trn2", EfaKind::kRdma, {"48xlarge"}},
    {"trn2u", EfaKind::kRdma, {"48xlarge"}},
    {"dl1", EfaKind::kPlain, {"24xlarge"}},
    {"g4dn", EfaKind::kPlain, {"8xlarge", "12xlarge", "16xlarge", "metal"}},
    {"g5", EfaKind::kPlain, {"8xlarge", "12xlarge", "16xlarge", "24xlarge", "48xlarge"}},
    {"g6", EfaKind::kPlain, {"8xlarge", "12xlarge", "16xlarge", "24xlarge", "48xlarge"}},
    {"g6e", EfaKind::kPlain, {"8xlarge", "12xlarge", "16xlarge", "24xlarge", "48xlarge"}},
    {"c5n", EfaKind::kPlain, {"9xlarge", "18xlarge", "metal"}},
    {"c6i", EfaKind::kPlain, {"32xlarge", "metal"}},
    {"m5n", EfaKind::kPlain, {"24xlarge", "metal"}},
    {"m5dn", EfaKind::kPlain, {"24xlarge", "metal"}},
    {"m6i", EfaKind::kPlain, {"32xlarge", "metal"}},
    {"r5n", EfaKind::kPlain, {"24xlarge", "metal"}},
}};

}  // namespace

EfaKind efa_of(std::string_view instance_type) {
  constexpr std::string_view kService = "ml.";
  if (instance_type.starts_with(kService)) {
    instance_type.remove_prefix(kService.size());
  }
  const std::size_t dot = instance_type.find('.');
  if (dot == std::string_view::npos) {
    return EfaKind::kNone;
  }
  const std::string_view name = instance_type.substr(0, dot);
  const std::string_view size = instance_type.substr(dot + 1);
  const auto found = std::ranges::find(kFamilies, name, &Family::name);
  if (found == kFamilies.end() || size.empty()) {
    return EfaKind::kNone;
  }
  const bool has_one = std::ranges::any_of(
      found->sizes, [&](std::string_view one) { return one == "*" || one == size; });
  return has_one ? found->kind : EfaKind::kNone;
}

Variables efa_variables(std::string_view instance_type) {
  const EfaKind kind = efa_of(instance_type);
  if (kind == EfaKind::kNone) {
    return {};
  }
  Variables variables = {{"FI_PROVIDER", "efa"},
                         {"FI_EFA_FORK_SAFE", "1"},
                         {"FI_EFA_USE_HUGE_PAGE", "0"},
                         {"NCCL_PROTO", "simple"}};
  if (kind == EfaKind::kRdma) {
    variables["FI_EFA_USE_DEVICE_RDMA"] = "1";
  }
  return variables;
}

}  // namespace trainyard::instance
