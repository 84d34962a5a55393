// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/launch_plan.h"

#include <algorithm>

#include <unistd.h>

#include "base/text.h"
#include "instance/launch/contract.h"
#include "instance/launch/installer.h"
#include "instance/launch/mpi_link.h"
#include "instance/launch/rank_environment.h"
#include "instance/launch/request.h"
#include "instance/launch/script_env.h"

namespace trainyard::instance {

using nlohmann::json;

namespace {

constexpr std::uint16_t kMasterPort = 7777;

std::vector<std::string> script_command(const wire::Assignment& assignment, const LaunchForm& form,
                                        const CodeFacts& facts) {
  const std::string& program = form.program;
  if (program.ends_with(".py") && facts.has_setup_py) {
    std::string module = program.substr(0, program.size() - 3);
    std::replace(module.begin(), module.end(), '/', '.');
    return {python_of(assignment), "-m", module};
  }
  if (program.ends_with(".py")) {
    return {python_of(assignment), program};
  }
  // The shell is there for scripts without a first line; it sees names only as parameters.
  return {"/bin/sh", "-c", "exec \"$0\" \"$@\"", "./" + program};
}

int position_of(const wire::Assignment& assignment) {
  const auto& hosts = assignment.hosts;
  const auto own = std::find_if(hosts.begin(), hosts.end(), [&](const wire::Host& host) {
    return host.name == assignment.host;
  });
  return own == hosts.end() ? 0 : static_cast<int>(own - hosts.begin());
}

// torchrun's variables for one rank (PyTorch, "torchrun", Environment Variables). The store is made
// by rank 0 itself, because there is no agent.
Variables torchrun_variables(const wire::Assignment& assignment, int local_rank, int per_host) {
  const int node = position_of(assignment);
  const int nodes = std::max(1, static_cast<int>(assignment.hosts.size()));
  const int rank = node * per_host + local_rank;
  Variables variables = rank_variables({.rank = rank,
                                        .local_rank = local_rank,
                                        .world = nodes * per_host,
                                        .local_world = per_host,
                                        .node = node,
                                        .nodes = nodes});
  variables.insert({{"ROLE_RANK", std::to_string(rank)},
                    {"ROLE_WORLD_SIZE", std::to_string(nodes * per_host)},
                    {"ROLE_NAME", "default"},
                    {"TORCHELASTIC_RUN_ID", assignment.job_name},
                    {"TORCHELASTIC_RESTART_COUNT", "0"},
                    {"TORCHELASTIC_MAX_RESTARTS", "0"},
                    {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}});
  return variables;
}

void prepend_code_to_python_path(Variables& variables) {
  const std::string theirs = variables["PYTHONPATH"];
  variables["PYTHONPATH"] = std::string(kCodeDirectory) + (theirs.empty() ? "" : ":" + theirs);
}

void note_overruled(LaunchPlan& plan, std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const std::string& name : names) {
    plan.notes.push_back("Environment entry " + name +
                         " is set by the platform; yours is ignored.");
  }
}

void note_dropped(LaunchPlan& plan, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    plan.notes.push_back(name +
                         " is left out: Linux takes at most 131,071 bytes in one variable. The "
                         "values are in /opt/ml/input/config.");
  }
}

bool is_in_path(const std::string& program, const Variables& environment, const Path& ml) {
  const auto path = environment.find("PATH");
  const std::string folders = path == environment.end() ? std::string() : path->second;
  for (const std::string_view folder : split(folders, ':')) {
    const Path below = Path(folder).lexically_relative(Path(kMlRoot));
    const bool in_ml = !below.empty() && *below.begin() != "..";
    if (access(((in_ml ? ml / below : Path(folder)) / program).c_str(), X_OK) == 0) {
      return true;
    }
  }
  return false;
}

// A script with its arguments and its environment, before its launcher is looked at.
struct Script {
  const wire::Assignment& assignment;
  const LaunchForm& form;
  std::vector<std::string> argv;
  Variables environment;
  const Variables& user;  // CreateTrainingJob.Environment
  std::uint16_t remote_shell_port = kRemoteShellPort;
};

// Ranks share the cores of their host.
void share_cores(const Script& script, Variables& environment) {
  const int processes = script.form.distribution.processes;
  if (processes > 1 && script.user.count("OMP_NUM_THREADS") == 0) {
    environment["OMP_NUM_THREADS"] =
        std::to_string(std::max(1, script.assignment.num_cpus / processes));
  }
}

void add_torchrun(const Script& script, LaunchPlan& plan, std::vector<std::string>& overruled) {
  const int processes = script.form.distribution.processes;
  for (int local = 0; local < processes; ++local) {
    const Variables ranks = torchrun_variables(script.assignment, local, processes);
    Process process{.argv = script.argv,
                    .environment = with_fixed(script.environment, ranks, script.user, overruled)};
    share_cores(script, process.environment);
    process.rank = position_of(script.assignment) * processes + local;
    plan.processes.push_back(std::move(process));
  }
}

std::vector<std::string> leader_command(const Script& script) {
  const Distribution& distribution = script.form.distribution;
  MpiJob job{.hosts = {},
             .processes_per_host = distribution.processes,
             .network_interface = script.assignment.network_interface,
             .smddp_runner = distribution.by_smddp_runner(),
             .custom = distribution.mpi.arguments};
  for (const wire::Host& host : script.assignment.hosts) {
    job.hosts.push_back(host.name);
  }
  const std::vector<std::string> mpirun = mpirun_command(job);
  std::vector<std::string> argv = {kOwnProgram, kMpiVerb, "lead"};
  if (distribution.launcher == Launcher::kMpi && script.form.program.ends_with(".py")) {
    argv.emplace_back("--mpi4py");
  }
  if (job.hosts.size() == 1 && distribution.processes == 1) {
    argv.emplace_back("--alone");
  }
  argv.push_back(std::to_string(mpirun.size()));
  argv.insert(argv.end(), mpirun.begin(), mpirun.end());
  argv.insert(argv.end(), script.argv.begin(), script.argv.end());
  return argv;
}

// Under smdistributed a process group without a name is SMDDP's, as far as the platform chooses it.
void add_smddp(const Script& script, Variables& variables, std::vector<std::string>& overruled) {
  variables = with_fixed(variables, smddp_variables(script.assignment), script.user, overruled);
  const auto chosen = variables.find(kDefaultBackend);
  if (script.form.distribution.launcher == Launcher::kSmddp && chosen != variables.end() &&
      !script.user.contains(kDefaultBackend)) {
    chosen->second = "smddp";
  }
}

// The environment is that of every rank on this host: what starts them hands it on.
void add_mpi(const Script& script, LaunchPlan& plan, std::vector<std::string>& overruled) {
  const wire::Assignment& assignment = script.assignment;
  Process process{.argv = {}, .environment = script.environment, .is_launcher = true};
  share_cores(script, process.environment);
  if (script.form.distribution.by_smddp_runner()) {
    add_smddp(script, process.environment, overruled);
  }
  process.environment.emplace("NCCL_MIN_NCHANNELS", "4");
  if (const std::string& level = script.form.distribution.mpi.nccl_debug; !level.empty()) {
    process.environment["NCCL_DEBUG"] = level;
  }
  process.environment[kMpiLinkVariable] = to_text({.host = assignment.host,
                                                   .hosts = assignment.hosts,
                                                   .secret = assignment.gang_secret,
                                                   .port = script.remote_shell_port});
  if (position_of(assignment) == 0) {
    process.argv = leader_command(script);
    plan.needs = {{.name = "mpirun", .package = "openmpi-bin"}};
  } else {
    process.argv = {kOwnProgram, kMpiVerb, "serve"};
    plan.needs = {{.name = "orted", .package = "openmpi-bin"}};
    plan.notes.push_back(
        "This job runs under mpirun: what the ranks of this host print is in the "
        "log stream of " +
        assignment.hosts.front().name + ".");
  }
  plan.processes.push_back(std::move(process));
}

void add_processes(const Script& script, LaunchPlan& plan, std::vector<std::string>& overruled) {
  switch (script.form.distribution.launcher) {
    case Launcher::kPlain:
      plan.processes.push_back({.argv = script.argv, .environment = script.environment});
      return;
    case Launcher::kTorchrun:
      return add_torchrun(script, plan, overruled);
    case Launcher::kMpi:
    case Launcher::kPytorchDdp:
    case Launcher::kSmddp:
      return add_mpi(script, plan, overruled);
  }
}

}  // namespace

Result<LaunchForm> launch_form(const wire::Assignment& assignment) {
  const json& algorithm = member(assignment.request, "AlgorithmSpecification");
  LaunchForm form;
  form.command = strings_in(member(algorithm, "ContainerEntrypoint"));
  const std::vector<std::string> arguments = strings_in(member(algorithm, "ContainerArguments"));
  form.command.insert(form.command.end(), arguments.begin(), arguments.end());
  if (!form.command.empty()) {
    return form;
  }
  const Hyperparameters all =
      decode_hyperparameters(texts_at(assignment.request, "HyperParameters"));
  const json& environment = member(assignment.request, "Environment");
  form.program = find_text(all, "sagemaker_program");
  if (form.program.empty()) {
    form.program = text_at(environment, "SAGEMAKER_PROGRAM");
  }
  if (form.program.empty()) {
    return Error{Code::kInvalidArgument,
                 "nothing to run: give the hyperparameters sagemaker_program and "
                 "sagemaker_submit_directory, or AlgorithmSpecification.ContainerEntrypoint"};
  }
  form.submit_directory = find_text(all, "sagemaker_submit_directory");
  if (form.submit_directory.empty()) {
    form.submit_directory = text_at(environment, "SAGEMAKER_SUBMIT_DIRECTORY", kCodeDirectory);
  }
  YARD_TRY(form.distribution, choose_distribution(all, assignment));
  return form;
}

LaunchPlan launch_plan(const wire::Assignment& assignment, const LaunchForm& form,
                       const CodeFacts& facts, const ContainerEnvironment& environment) {
  LaunchPlan plan{.setup = {}, .processes = {}, .needs = {}, .notes = assignment.notes};
  std::vector<std::string> overruled;
  const Variables user = texts_at(assignment.request, "Environment");
  Variables base = environment.defaults_and_user;
  if (form.command.empty()) {
    prepend_code_to_python_path(base);
  }
  base = with_fixed(base, environment.contract, user, overruled);
  if (!form.command.empty()) {
    plan.processes.push_back({.argv = form.command, .environment = std::move(base)});
    note_overruled(plan, std::move(overruled));
    return plan;
  }

  const Hyperparameters all =
      decode_hyperparameters(texts_at(assignment.request, "HyperParameters"));
  base = with_fixed(
      base,
      script_variables(assignment, all,
                       {.program = form.program, .submit_directory = form.submit_directory}),
      user, overruled);
  base.emplace("MASTER_ADDR", assignment.hosts.empty() ? "localhost" : assignment.hosts[0].name);
  base.emplace("MASTER_PORT",
               std::to_string(environment.ports ? environment.ports->master() : kMasterPort));
  for (std::string& note : naming_notes(assignment, all)) {
    plan.notes.push_back(std::move(note));
  }
  note_dropped(plan, drop_oversized(base));
  plan.setup = setup_steps(assignment, facts, base);

  Script script{.assignment = assignment,
                .form = form,
                .argv = script_command(assignment, form, facts),
                .environment = std::move(base),
                .user = user};
  if (environment.ports) {
    script.remote_shell_port = environment.ports->remote_shell();
  }
  const std::vector<std::string> arguments = command_line(users(all));
  script.argv.insert(script.argv.end(), arguments.begin(), arguments.end());
  add_processes(script, plan, overruled);
  note_overruled(plan, std::move(overruled));
  return plan;
}

Result<void> check_needs(const LaunchPlan& plan, const Path& ml) {
  for (const NeededProgram& needed : plan.needs) {
    if (!is_in_path(needed.name, plan.processes.front().environment, ml)) {
      return Error{Code::kNotFound, needed.name +
                                        " is not installed on this machine: the job's "
                                        "launcher needs it. Install the Debian package " +
                                        needed.package + " (./yard setup run does)."};
    }
  }
  return {};
}

json to_json(const Process& process) {
  json out = {{"argv", process.argv},
              {"environment", process.environment},
              {"directory", process.directory},
              {"launcher", process.is_launcher}};
  if (process.rank) {
    out["rank"] = *process.rank;
  }
  return out;
}

Result<Process> process_from_json(const json& value) {
  Process process;
  process.argv = strings_in(member(value, "argv"));
  if (process.argv.empty()) {
    return Error{Code::kInvalidArgument, "a process of the launch plan has no argv"};
  }
  process.environment = texts_at(value, "environment");
  process.directory = text_at(value, "directory");
  process.is_launcher = flag_at(value, "launcher");
  if (const json& rank = member(value, "rank"); rank.is_number_integer()) {
    process.rank = rank.get<int>();
  }
  return process;
}

}  // namespace trainyard::instance
