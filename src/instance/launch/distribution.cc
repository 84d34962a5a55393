// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/distribution.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace trainyard::instance {
namespace {

constexpr int kMostProcesses = 1024;

constexpr const char* kMpiEnabled = "sagemaker_mpi_enabled";
constexpr const char* kMpiProcesses = "sagemaker_mpi_num_of_processes_per_host";
constexpr const char* kMpiOptions = "sagemaker_mpi_custom_mpi_options";
constexpr const char* kDdpEnabled = "sagemaker_pytorch_ddp_enabled";
constexpr const char* kSmddpEnabled = "sagemaker_distributed_dataparallel_enabled";
constexpr const char* kSmddpOptions = "sagemaker_distributed_dataparallel_custom_mpi_options";
constexpr const char* kTorchrunEnabled = "sagemaker_torch_distributed_enabled";
constexpr const char* kTorchrunProcesses = "sagemaker_nproc_per_node";

struct Missing {
  const char* key;
  const char* name;
};
constexpr std::array<Missing, 3> kMissing = {
    {{"sagemaker_pytorch_xla_multi_worker_enabled", "pytorchxla"},
     {"sagemaker_parameter_server_enabled", "parameter_server"},
     {"sagemaker_multi_worker_mirrored_strategy_enabled", "multi_worker_mirrored_strategy"}}};

Result<void> refuse_missing(const Hyperparameters& all) {
  for (const Missing& other : kMissing) {
    if (find_flag(all, other.key)) {
      return Error{Code::kInvalidArgument,
                   std::string("the distribution ") + other.name + " (hyperparameter " + other.key +
                       ") is not supported yet: use torch_distributed, smdistributed's "
                       "dataparallel, pytorchddp or mpi, or start it yourself with "
                       "ContainerEntrypoint"};
    }
  }
  return {};
}

Result<int> processes_on_host(const Hyperparameters& all, const char* key,
                              const wire::Assignment& assignment) {
  const std::string asked = find_text(all, key);
  if (asked.empty()) {
    return std::max(1, static_cast<int>(assignment.gpus.size()));
  }
  const Result<std::int64_t> count = parse_int(asked);
  if (!count || *count < 1 || *count > kMostProcesses) {
    return Error{Code::kInvalidArgument, std::string("the hyperparameter ") + key +
                                             " must be a number from 1 to 1024, not '" + asked +
                                             "'"};
  }
  return static_cast<int>(*count);
}

// The API refuses it too; a job of an older server may still come with it.
Result<void> check_switches(const Hyperparameters& all) {
  for (const char* key : {kMpiEnabled, kDdpEnabled, kTorchrunEnabled, kSmddpEnabled}) {
    const bool is_given = find_value(all, key) != nullptr;
    const std::string text = find_text(all, key);
    if (is_given && !find_flag(all, key) && !equal_ignoring_case(trim(text), "false")) {
      return Error{Code::kInvalidArgument, std::string("the hyperparameter ") + key +
                                               " must be true or false, not '" + text + "'"};
    }
  }
  return {};
}

Launcher launcher_of(const Hyperparameters& all) {
  if (find_flag(all, kMpiEnabled)) {
    return Launcher::kMpi;
  }
  if (find_flag(all, kDdpEnabled)) {
    return Launcher::kPytorchDdp;
  }
  if (find_flag(all, kTorchrunEnabled)) {
    return Launcher::kTorchrun;
  }
  return find_flag(all, kSmddpEnabled) ? Launcher::kSmddp : Launcher::kPlain;
}

// SMDDP's runner has a key of its own; boto3's users may know the other one.
Result<CustomMpiOptions> mpi_options(const Hyperparameters& all, const Distribution& chosen) {
  const bool own = chosen.by_smddp_runner() && !find_text(all, kSmddpOptions).empty();
  const char* key = own ? kSmddpOptions : kMpiOptions;
  return parse_custom_mpi_options(key, find_text(all, key));
}

}  // namespace

Result<Distribution> choose_distribution(const Hyperparameters& all,
                                         const wire::Assignment& assignment) {
  YARD_TRY(check_switches(all));
  Distribution out{.launcher = launcher_of(all)};
  switch (out.launcher) {
    case Launcher::kPlain: {
      YARD_TRY(refuse_missing(all));
      return out;
    }
    case Launcher::kTorchrun: {
      YARD_TRY(out.processes, processes_on_host(all, kTorchrunProcesses, assignment));
      return out;
    }
    case Launcher::kMpi:
    case Launcher::kPytorchDdp:
    case Launcher::kSmddp: {
      YARD_TRY(out.processes, processes_on_host(all, kMpiProcesses, assignment));
      YARD_TRY(out.mpi, mpi_options(all, out));
      return out;
    }
  }
  return out;
}

}  // namespace trainyard::instance
