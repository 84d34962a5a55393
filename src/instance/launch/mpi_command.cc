// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/mpi_command.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "instance/launch/words.h"

namespace trainyard::instance {
namespace {

using Words = std::vector<std::string>;

// One option of ours, and the spellings with which a custom option says the same.
struct Option {
  Words words;
  Words replaced_by;
};

bool is_mca(const std::string& word) {
  return word == "--mca" || word == "-mca" || word == "--gmca" || word == "-gmca";
}

// The names of the MCA parameters that are set.
Words mca_names(const Words& arguments) {
  Words names;
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    if (is_mca(arguments[i])) {
      names.push_back(arguments[i + 1]);
    }
  }
  return names;
}

bool holds(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string host_list(const MpiJob& job) {
  Words hosts;
  for (const std::string& host : job.hosts) {
    hosts.push_back(host + ":" + std::to_string(job.processes_per_host));
  }
  return join(hosts, ",");
}

std::vector<Option> options_of(const MpiJob& job) {
  const std::size_t processes = job.hosts.size() * static_cast<std::size_t>(job.processes_per_host);
  std::vector<Option> options = {
      {{"--host", host_list(job)},
       {"--host", "-host", "-H", "--hostfile", "-hostfile", "--machinefile", "-machinefile"}},
      {{"-np", std::to_string(processes)}, {"-np", "--np", "-n", "--n", "-c"}},
      {{"--allow-run-as-root"}, {"--allow-run-as-root", "-allow-run-as-root"}},
      {{"--display-map"}, {"--display-map", "-display-map"}},
      {{"--tag-output"}, {"--tag-output", "-tag-output"}},
      // A daemon that stays in its remote shell ends with it.
      {{"--leave-session-attached"}, {"--leave-session-attached", "-leave-session-attached"}},
      {{"--bind-to", "none"}, {"--bind-to", "-bind-to"}},
      {{"--map-by", "slot"},
       {"--map-by", "-map-by", "-N", "-npernode", "--npernode", "-ppr", "--ppr"}}};
  if (job.smddp_runner) {
    options.push_back({{"--oversubscribe"}, {"--oversubscribe", "-oversubscribe"}});
  }
  return options;
}

std::vector<std::pair<std::string, std::string>> parameters_of(const MpiJob& job) {
  return {{"btl_tcp_if_include", job.network_interface},
          {"oob_tcp_if_include", job.network_interface},
          {"pml", "ob1"},
          {"btl", "^openib"},
          // Reading a peer's memory takes a right that containers do not have.
          {"btl_vader_single_copy_mechanism", "none"},
          {"orte_abort_on_non_zero_status", "1"},
          {"plm_rsh_no_tree_spawn", "1"},
          // All at once: a remote shell that stays open counts as being started.
          {"plm_rsh_num_concurrent", std::to_string(std::max<std::size_t>(1, job.hosts.size()))},
          {"plm_rsh_agent", std::string(kOwnProgram) + " " + kMpiVerb + " shell"}};
}

// Open MPI takes one of the two only: btl_tcp_if_include and btl_tcp_if_exclude.
std::string opposite_of(const std::string& name) {
  constexpr std::string_view kInclude = "_if_include";
  return name.ends_with(kInclude) ? name.substr(0, name.size() - kInclude.size()) + "_if_exclude"
                                  : name;
}

}  // namespace

Result<CustomMpiOptions> parse_custom_mpi_options(std::string_view key, std::string_view text) {
  Result<Words> words = split_words(text);
  if (!words) {
    return std::move(words).error().in("reading " + std::string(key));
  }
  constexpr std::string_view kDebug = "--NCCL_DEBUG";
  CustomMpiOptions options;
  for (std::size_t i = 0; i < words->size(); ++i) {
    const std::string& word = (*words)[i];
    if (word == kDebug && i + 1 < words->size()) {
      options.nccl_debug = (*words)[++i];
    } else if (word.starts_with(std::string(kDebug) + "=")) {
      options.nccl_debug = word.substr(kDebug.size() + 1);
    } else {
      options.arguments.push_back(word);
    }
  }
  for (const std::string& name : mca_names(options.arguments)) {
    if (name == "plm" || name == "plm_rsh_agent" || name == "plm_rsh_no_tree_spawn") {
      return Error{Code::kInvalidArgument,
                   std::string(key) + " may not set " + name +
                       ": instances are reached by the platform's own remote shell"};
    }
  }
  return options;
}

std::vector<std::string> mpirun_command(const MpiJob& job) {
  Words argv = {"mpirun"};
  for (const Option& option : options_of(job)) {
    const bool is_replaced =
        std::any_of(option.replaced_by.begin(), option.replaced_by.end(),
                    [&](const std::string& spelling) { return holds(job.custom, spelling); });
    if (!is_replaced) {
      argv.insert(argv.end(), option.words.begin(), option.words.end());
    }
  }
  const Words theirs = mca_names(job.custom);
  for (const auto& [name, value] : parameters_of(job)) {
    if (!holds(theirs, name) && !holds(theirs, opposite_of(name))) {
      argv.insert(argv.end(), {"--mca", name, value});
    }
  }
  argv.insert(argv.end(), job.custom.begin(), job.custom.end());
  argv.insert(argv.end(), {kOwnProgram, kMpiVerb, "rank"});
  if (job.smddp_runner) {
    argv.emplace_back("--overrule");
  }
  return argv;
}

}  // namespace trainyard::instance
