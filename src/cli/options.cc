// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <string_view>

#include <CLI/CLI.hpp>

#include "base/command_line.h"
#include "base/text.h"
#include "cli/job_file.h"
#include "cli/nearest.h"
#include "cli/program.h"
#include "cli/terminal.h"

namespace trainyard::cli {
namespace {

constexpr int kWrongUsage = 2;

void add_common(CLI::App& verb, Options& options) {
  verb.add_option("--endpoint", options.endpoint,
                  "Server to talk to (default: $AWS_ENDPOINT_URL, then the one on this machine)")
      ->type_name("URL");
  verb.add_flag("--json", options.json, "Print JSON, for scripts");
}

CLI::App* add_verb(CLI::App& app, Options& options, Verb verb, const char* name) {
  CLI::App* added = app.add_subcommand(name, std::string(purpose_of(name)));
  add_common(*added, options);
  added->callback([&options, verb] { options.verb = verb; });
  return added;
}

void add_submit(CLI::App& app, Options& options) {
  CLI::App* verb = add_verb(app, options, Verb::kSubmit, "submit");
  verb->add_option("FILE", options.file,
                   "The members of CreateTrainingJob; '-' reads standard input")
      ->required();
  verb->add_option("--name", options.name, "Name of the job (default: from the file, or made up)");
  verb->add_option("--hyperparameter,-p", options.hyperparameters,
                   "Set one hyperparameter; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb->add_flag("--wait,-w", options.wait, "Show the log until the job ends; 0 when it completed");
  verb->footer(
      "Example:\n  trainyard submit job.yaml --name demo-1 -p epochs=3 --wait\n"
      "The same with AWS's own client:\n"
      "  aws sagemaker create-training-job --cli-input-json file://job.json\n\n"
      "A whole job.yaml:\n\n" +
      std::string(sample_job()));
}

void add_list(CLI::App& app, Options& options) {
  CLI::App* verb = add_verb(app, options, Verb::kList, "list");
  verb->add_option("--name-contains", options.name, "Only jobs whose name holds this text");
  verb->add_option("--status", options.status,
                   "Only jobs in this status: InProgress, Completed, Failed, Stopping, Stopped");
  verb->add_option("--limit,-n", options.limit, "How many at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
}

void add_job_argument(CLI::App& verb, Options& options) {
  verb.add_option("NAME", options.job, "Name of the training job")->required();
}

// Makes USR1 or USR2 of what was given, with or without SIG, in any case; or says what is wrong.
std::string read_signal(std::string& given) {
  std::string name = lower(given);
  name = name.starts_with("sig") ? name.substr(3) : name;
  if (name != "usr1" && name != "usr2") {
    return "'" + printable(given, false) +
           "' is neither USR1 nor USR2; to end a job: trainyard stop NAME";
  }
  given = name == "usr1" ? "USR1" : "USR2";
  return {};
}

void add_signal(CLI::App& app, Options& options) {
  CLI::App* verb = add_verb(app, options, Verb::kSignal, "signal");
  add_job_argument(*verb, options);
  verb->add_option("SIGNAL", options.signal, "USR1 or USR2")
      ->required()
      ->transform(CLI::Validator(read_signal, ""));
  verb->footer(
      "Each process of the job, on every instance, gets it once if it has a handler for it, or "
      "blocks it\nto wait for it; the others, whom it would kill, are spared. Ranks that use "
      "Trainyard's collectives\nanswer USR2 with their flight record.\n"
      "Example:\n  trainyard signal demo-1 USR2");
}

void add_verbs(CLI::App& app, Options& options) {
  add_submit(app, options);
  add_list(app, options);
  add_job_argument(*add_verb(app, options, Verb::kDescribe, "describe"), options);
  CLI::App* logs = add_verb(app, options, Verb::kLogs, "logs");
  add_job_argument(*logs, options);
  logs->add_flag("--follow,-f", options.follow,
                 "Go on until the job ends; 0 when it completed. Ctrl-C leaves the job running");
  CLI::App* why = add_verb(app, options, Verb::kWhy, "why");
  add_job_argument(*why, options);
  why->footer("0 when there was something to explain, whatever the job's end was.");
  CLI::App* stop = add_verb(app, options, Verb::kStop, "stop");
  add_job_argument(*stop, options);
  stop->add_flag("--wait,-w", options.wait, "Wait until it has stopped");
  add_signal(app, options);
  CLI::App* remove = add_verb(app, options, Verb::kDelete, "delete");
  add_job_argument(*remove, options);
  remove->footer(
      "The name is free again then. A job that runs is refused: trainyard stop --wait NAME first.");
}

void complain_of_verb(const std::string& word, std::ostream& err) {
  const std::vector<std::string_view> names = verb_names();
  err << "trainyard: there is no verb '" << printable(word, false) << "'"
      << did_you_mean(word, names) << "\nVerbs: ";
  for (const std::string_view name : names) {
    err << (name == names.front() ? "" : ", ") << name;
  }
  err << ". Each explains itself with --help.\n";
}

}  // namespace

std::variant<Options, int> parse_options(const std::vector<std::string>& args, std::ostream& out,
                                         std::ostream& err) {
  Options options;
  CLI::App app("Distributed training on machines you own, through the SageMaker API", "trainyard");
  app.require_subcommand(1);
  app.footer("Also: trainyard server (see trainyard server --help).");
  add_verbs(app, options);
  if (!args.empty() && !args[0].starts_with('-') &&
      app.get_subcommands([&](const CLI::App* verb) { return verb->get_name() == args[0]; })
          .empty()) {
    complain_of_verb(args[0], err);
    return kWrongUsage;
  }
  if (const auto usage = read_command_line(app, args)) {
    (usage->is_wrong ? err : out) << usage->text;
    return usage->exit_code();
  }
  return options;
}

}  // namespace trainyard::cli
