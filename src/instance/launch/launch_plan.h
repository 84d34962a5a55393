// SPDX-License-Identifier: Apache-2.0
// Decides what runs in a container: from the request to a list of processes with arguments,
// environment and directory, and the steps that must come before. Pure; init.cc executes the plan,
// the planner of a test prints it. Nothing from outside is ever put into the text of a shell
// command.
//
// Which form: ContainerEntrypoint or ContainerArguments run as given, once per host; else script
// mode by the hyperparameter sagemaker_program (or the variable SAGEMAKER_PROGRAM), under the
// launcher that distribution.h chooses.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/result.h"
#include "instance/launch/distribution.h"
#include "instance/launch/environment.h"
#include "wire/messages.h"

namespace trainyard::instance {

// What the request asks for, before its code is here.
struct LaunchForm {
  std::vector<std::string> command;  // ContainerEntrypoint + ContainerArguments; else empty
  std::string program;               // script mode: "train.py"
  std::string submit_directory;      // S3 URI of a .tar.gz, or a path in the container
  Distribution distribution = {};
};

// kInvalidArgument when nothing is asked for, or a launcher that is not there yet.
Result<LaunchForm> launch_form(const wire::Assignment& assignment);

// What the unpacked code and the Python environment hold.
struct CodeFacts {
  bool has_requirements = false;
  bool has_setup_py = false;
  bool has_uv = false;          // <python environment>/bin/uv
  bool has_pip = false;         // <python environment>/bin/pip
  Variables pip_settings = {};  // of the configuration files that pip would read (pip_settings.h)
  std::vector<std::string> notes = {};  // for the job's log
};

struct Process {
  std::vector<std::string> argv;
  Variables environment;
  std::string directory = "/opt/ml/code";
  std::optional<int> rank = {};  // global; set where the launcher knows it
  // Ours: it starts ranks itself and tells on the status descriptor (init.h) how they have ended.
  bool is_launcher = false;
};

// Programs that a launcher needs and that the machine may lack.
struct NeededProgram {
  std::string name;     // looked up in the PATH of the processes
  std::string package;  // Debian's name of what brings it
};

// A command that must succeed before the container is ready.
struct SetupStep {
  std::string what;  // "install requirements.txt"
  Process process;
  std::string obstacle = {};  // why it must not even be tried; empty: nothing is in its way
};

struct LaunchPlan {
  std::vector<SetupStep> setup;
  std::vector<Process> processes;
  std::vector<NeededProgram> needs;
  std::vector<std::string> notes;  // for the job's log: what was overruled or left out
};

LaunchPlan launch_plan(const wire::Assignment& assignment, const LaunchForm& form,
                       const CodeFacts& facts, const ContainerEnvironment& environment);

// kNotFound, naming program and package, when one that the plan needs is not there. `ml` is where
// the container's /opt/ml is here.
Result<void> check_needs(const LaunchPlan& plan, const Path& ml);

// For the trip into the container.
nlohmann::json to_json(const Process& process);
Result<Process> process_from_json(const nlohmann::json& json);

}  // namespace trainyard::instance
