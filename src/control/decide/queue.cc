// SPDX-License-Identifier: Apache-2.0
#include "control/decide/queue.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace trainyard::control {
namespace {

struct Free {
  int instances = 0;
  std::vector<std::string> gpus;
};

bool fits(const Job& job, const Free& free) {
  const auto gpus =
      static_cast<std::size_t>(job.instances) * static_cast<std::size_t>(job.gpus_per_instance);
  return job.instances <= free.instances && gpus <= free.gpus.size();
}

std::vector<std::vector<std::string>> take(const Job& job, Free& free) {
  free.instances -= job.instances;
  std::vector<std::vector<std::string>> given(static_cast<std::size_t>(job.instances));
  const auto each = static_cast<std::ptrdiff_t>(job.gpus_per_instance);
  for (auto& devices : given) {
    devices.assign(free.gpus.begin(), free.gpus.begin() + each);
    free.gpus.erase(free.gpus.begin(), free.gpus.begin() + each);
  }
  return given;
}

Free free_of(const std::vector<const Job*>& jobs, const Machine& machine) {
  Free free{.instances = machine.instances, .gpus = machine.gpus};
  for (const Job* job : jobs) {
    if (!holds_capacity(job->stage)) {
      continue;
    }
    free.instances -= job->instances;
    for (const auto& devices : job->gpus) {
      for (const std::string& device : devices) {
        std::erase(free.gpus, device);
      }
    }
  }
  return free;
}

struct TypeSize {
  std::string_view family;  // "p4d"
  std::string_view size;    // empty: every size
  int gpus;
};

// From AWS's public instance tables. Families with one GPU in most sizes have the exceptions first.
constexpr std::array kTypes{
    TypeSize{"p2", "xlarge", 1},    TypeSize{"p2", "8xlarge", 8},    TypeSize{"p2", "16xlarge", 16},
    TypeSize{"p3", "2xlarge", 1},   TypeSize{"p3", "8xlarge", 4},    TypeSize{"p3", "16xlarge", 8},
    TypeSize{"p3dn", "", 8},        TypeSize{"p4d", "", 8},          TypeSize{"p4de", "", 8},
    TypeSize{"p5", "4xlarge", 1},   TypeSize{"p5", "", 8},           TypeSize{"p5e", "", 8},
    TypeSize{"p5en", "", 8},        TypeSize{"p6-b200", "", 8},      TypeSize{"p6-b300", "", 8},
    TypeSize{"p6e-gb200", "", 4},   TypeSize{"g4dn", "12xlarge", 4}, TypeSize{"g4dn", "metal", 8},
    TypeSize{"g4dn", "", 1},        TypeSize{"g5", "12xlarge", 4},   TypeSize{"g5", "24xlarge", 4},
    TypeSize{"g5", "48xlarge", 8},  TypeSize{"g5", "", 1},           TypeSize{"g6", "12xlarge", 4},
    TypeSize{"g6", "24xlarge", 4},  TypeSize{"g6", "48xlarge", 8},   TypeSize{"g6", "", 1},
    TypeSize{"g6e", "12xlarge", 4}, TypeSize{"g6e", "24xlarge", 4},  TypeSize{"g6e", "48xlarge", 8},
    TypeSize{"g6e", "", 1},         TypeSize{"gr6", "", 1},
};

}  // namespace

std::string gpu_node(const Machine& machine, const std::string& number) {
  const std::size_t star = machine.gpu_device.find('*');
  return machine.gpu_device.substr(0, star) + number + machine.gpu_device.substr(star + 1);
}

std::map<std::string, CapacityView> plan_queue(const std::vector<const Job*>& jobs,
                                               const Machine& machine) {
  std::vector<const Job*> ordered = jobs;
  std::sort(ordered.begin(), ordered.end(),
            [](const Job* a, const Job* b) { return a->sequence < b->sequence; });
  Free free = free_of(jobs, machine);
  std::map<std::string, CapacityView> views;
  std::string ahead;
  for (const Job* job : ordered) {
    const bool waits = job->stage == Stage::kWaiting;
    const bool may_wait_soon = job->stage == Stage::kNew || job->stage == Stage::kChecking;
    if ((!waits && !may_wait_soon) || job->stop_requested) {
      continue;
    }
    CapacityView view{.total = machine.instances,
                      .free = std::max(0, free.instances),
                      .total_gpus = static_cast<int>(machine.gpus.size()),
                      .free_gpus = static_cast<int>(free.gpus.size()),
                      .ahead = ahead};
    if (fits(*job, free)) {
      view.granted = true;
      view.gpus = take(*job, free);
    } else if (waits && ahead.empty()) {
      ahead = job->name;
    }
    if (waits) {
      views.emplace(job->name, std::move(view));
    }
  }
  return views;
}

std::string waiting_message(const Job& job, const CapacityView& view) {
  const int gpus = job.instances * job.gpus_per_instance;
  const bool lacks_instances = view.total < job.instances;
  if (lacks_instances || view.total_gpus < gpus) {
    return fmt::format(
        "Waiting for capacity that there is not: {} {} are needed, and this server has {} in all. "
        "Stop the job, or raise `capacity` in config.yaml",
        lacks_instances ? job.instances : gpus, lacks_instances ? "instances" : "GPUs",
        lacks_instances ? view.total : view.total_gpus);
  }
  std::string text =
      view.free < job.instances
          ? fmt::format("Waiting for capacity: {} of {} needed instances free", view.free,
                        job.instances)
          : fmt::format("Waiting for capacity: {} of {} needed GPUs free", view.free_gpus, gpus);
  if (!view.ahead.empty()) {
    text += fmt::format("; job {} is ahead", view.ahead);
  }
  return text;
}

int gpus_of_type(std::string_view instance_type) {
  constexpr std::string_view kPrefix = "ml.";
  if (!instance_type.starts_with(kPrefix)) {
    return 0;
  }
  instance_type.remove_prefix(kPrefix.size());
  const std::string_view family = instance_type.substr(0, instance_type.find('.'));
  const std::string_view size = family.size() == instance_type.size()
                                    ? std::string_view()
                                    : instance_type.substr(family.size() + 1);
  for (const TypeSize& type : kTypes) {
    if (type.family == family && (type.size.empty() || type.size == size)) {
      return type.gpus;
    }
  }
  return 0;
}

std::string instance_type(const Job& job) {
  const auto resources = job.request.find("ResourceConfig");
  if (resources == job.request.end() || !resources->is_object()) {
    return {};
  }
  const auto type = resources->find("InstanceType");
  return type != resources->end() && type->is_string() ? type->get<std::string>() : std::string();
}

bool has_gpu_type(const Job& job) {
  return gpus_of_type(instance_type(job)) > 0;
}

std::string mapping_of(const Job& job) {
  const std::string type = instance_type(job);
  const int theirs = gpus_of_type(type);
  const int ours = job.gpus_per_instance;
  if (theirs == 0) {
    return fmt::format("{} is mapped to CPU cores of this machine.", type);
  }
  if (ours == 0) {
    return fmt::format("This machine has no GPU for {}: running on CPU.", type);
  }
  return fmt::format("{} is mapped to {} GPU{} of this machine{}.", type, ours,
                     ours == 1 ? "" : "s",
                     ours < theirs ? fmt::format(", not {}", theirs) : std::string());
}

Result<int> fit_to_machine(const Job& job, const Machine& machine, int instances_in_use) {
  const auto refuse = [&](std::string_view limit, std::size_t value) {
    return Error{
        .code = Code::kExhausted,
        .message = fmt::format(
            "The account-level service limit '{}' is {} Instances, with current utilization of {} "
            "Instances and a request delta of {} Instances. Ask for fewer instances, or raise "
            "capacity in config.yaml if the machine can bear it.",
            limit, value, instances_in_use, job.instances)};
  };
  const std::string type = instance_type(job);
  if (job.instances > machine.instances) {
    return refuse(fmt::format("{} for training job usage", type),
                  static_cast<std::size_t>(machine.instances));
  }
  const int wanted = gpus_of_type(type);
  if (wanted == 0 || machine.gpus.empty()) {
    return 0;
  }
  const int each = static_cast<int>(machine.gpus.size()) / job.instances;
  if (each == 0) {
    return refuse(fmt::format("{} for training job usage (one GPU each)", type),
                  machine.gpus.size());
  }
  return std::min(wanted, each);
}

}  // namespace trainyard::control
